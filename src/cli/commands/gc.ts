// `ork gc`: removes ended runs that are too old or too many, with their objects and files, in small batches.

import type { Context } from "../target/backends.ts"
import { InputError } from "../terminal/errors.ts"
import { withStores } from "../target/open.ts"
import { print, printJson } from "../terminal/output.ts"
import type { StoreFlags } from "../target/settings.ts"
import { plural } from "../terminal/text.ts"
import { DURATION_HINT, parseDuration } from "../../core/model/quantities.ts"
import { removeExpired, removeUnusedBundles } from "../../engine/services/retention.ts"

export interface GcOptions extends StoreFlags {
  olderThan?: string
  keep?: string
  json?: boolean
}

export const gc = (context: Context, options: GcOptions): Promise<number> => {
  const olderThanMs = options.olderThan === undefined ? undefined : parseDuration(options.olderThan)
  if (olderThanMs === null) throw new InputError(`--older-than: "${options.olderThan}" is not ${DURATION_HINT}`)
  const keep = options.keep === undefined ? undefined : Number(options.keep)
  if (keep !== undefined && (!/^\d+$/.test(options.keep!) || !Number.isSafeInteger(keep))) {
    throw new InputError(`--keep: "${options.keep}" is not a whole number`)
  }
  if (olderThanMs === undefined && keep === undefined) {
    throw new InputError("say what to remove: --older-than 30d, --keep 100 (runs of each workflow), or both")
  }
  return withStores(context, options, async ({ config, store, objects }) => {
    const rule = { ...(olderThanMs === undefined ? {} : { olderThanMs }), ...(keep === undefined ? {} : { keep }) }
    const removed = await removeExpired({ store, objects, dataDir: config.dataDir }, rule)
    const bundles = await removeUnusedBundles({ store, objects, dataDir: config.dataDir })
    if (options.json === true) printJson(context, { removed, bundles })
    else
      print(context, `removed ${plural(removed, "run")}${bundles > 0 ? ` and ${plural(bundles, "bundle")} of no version` : ""}`)
    return 0
  })
}
