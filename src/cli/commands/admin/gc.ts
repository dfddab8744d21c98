// `ork gc`: removes closed runs by age or count and finished jobs by age, with their objects and files, bundles that no version uses, and
// cached outputs that have expired.

import type { Context } from "../../target/context.ts"
import { InputError } from "../../terminal/errors.ts"
import { withStores } from "../../target/stores.ts"
import { parseWholeNumber } from "../../terminal/option-values.ts"
import { printError, printResult } from "../../terminal/output.ts"
import type { StoreFlags } from "../../target/load-config.ts"
import { plural } from "../../terminal/text.ts"
import { omitUndefined } from "../../../core/values/omit-undefined.ts"
import { DURATION_HINT, parseDuration } from "../../../core/values/quantities.ts"
import {
  removeOldRuns,
  removeOldJobs,
  removeUnusedBundles,
  removeUnusedCachedOutputs,
} from "../../../engine/services/retention.ts"

export interface GcOptions extends StoreFlags {
  olderThan?: string
  keep?: string
}

export const gc = (context: Context, options: GcOptions): Promise<number> => {
  const olderThanMs = options.olderThan === undefined ? undefined : parseDuration(options.olderThan)
  if (olderThanMs === null) throw new InputError(`--older-than: "${options.olderThan}" is not ${DURATION_HINT}`)
  const keep = parseWholeNumber("--keep", options.keep, 0)
  if (olderThanMs === undefined && keep === undefined) {
    throw new InputError("choose what to remove: --older-than 30d, --keep 100 (runs of each workflow), or both")
  }
  return withStores(context, options, async ({ config, store, objects }) => {
    const stores = { store, objects, dataDir: config.dataDir }
    const { removed, problems } = await removeOldRuns(stores, omitUndefined({ olderThanMs, keep }))
    const jobs = olderThanMs === undefined ? 0 : await removeOldJobs(stores, olderThanMs)
    const bundles = await removeUnusedBundles(stores)
    await removeUnusedCachedOutputs(stores)
    const others = [jobs > 0 ? `, ${plural(jobs, "job")}` : "", bundles > 0 ? ` and ${plural(bundles, "unused bundle")}` : ""]
    const code = printResult(
      context,
      options,
      { removed, jobs, bundles },
      `removed ${plural(removed, "run")}${others.join("")}`,
    )
    for (const problem of problems.values()) printError(context, `ork: ${problem}`)
    return problems.size > 0 ? 1 : code
  })
}
