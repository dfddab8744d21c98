// `ork keys`: lists, creates, rotates and revokes API keys. A new key is the only line on standard output, so that it can be redirected
// into a file.

import type { Context } from "../../target/context.ts"
import { parseChoice, parseNames } from "../../terminal/option-values.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { InputError } from "../../terminal/errors.ts"
import { printListing } from "../../terminal/listing.ts"
import { localTimes } from "../../terminal/times.ts"
import { print, printError, printJson, printResult } from "../../terminal/output.ts"
import type { CreatedKey } from "../../../protocol/client/client.ts"
import { describeLimits } from "../../../core/settings/workflow-limits.ts"
import { KEY_SCOPES } from "../../../store/contract/keys.ts"

export const listKeys = async (context: Context, options: ServerFlags): Promise<number> => {
  const items = await (await connect(context, options)).listKeys()
  const times = localTimes(context, context.backends.clock.now())
  return printListing(context, options, {
    items,
    none: "no keys besides the server's own",
    header: ["key", "scopes", "workflows", ...["created", "last used", "expires"].map(times.header), "name"],
    row: (key) => [
      key.id,
      key.scopes.join(" "),
      key.workflows === null && key.tags === null ? "all" : describeLimits(key),
      ...[key.created_at, key.last_used_at, key.expires_at].map(times.text),
      key.name,
    ],
  })
}

export interface CreateKeyOptions extends ServerFlags {
  scope: string[]
  queue?: string
  workflows?: string
  tag: string[]
  expires?: string
}

export const createKey = async (context: Context, name: string, options: CreateKeyOptions): Promise<number> => {
  if (options.scope.length === 0) throw new InputError(`give the key at least one --scope: ${KEY_SCOPES.join(", ")}`)
  const scopes = options.scope.map((scope) => parseChoice("--scope", scope, KEY_SCOPES))
  const created = await (
    await connect(context, options)
  ).createKey({
    name,
    scopes,
    ...(options.queue !== undefined && { queues: parseNames("--queue", options.queue) }),
    ...(options.workflows !== undefined && { workflows: options.workflows.split(",").map((pattern) => pattern.trim()) }),
    ...(options.tag.length > 0 && { tags: options.tag }),
    ...(options.expires !== undefined && { expires_in: options.expires }),
  })
  return printKey(context, options, created)
}

export interface RotateKeyOptions extends ServerFlags {
  overlap?: string
}

export const rotateKey = async (context: Context, id: string, options: RotateKeyOptions): Promise<number> =>
  printKey(context, options, await (await connect(context, options)).rotateKey(id, options.overlap))

const printKey = (context: Context, options: ServerFlags, created: CreatedKey): number => {
  if (options.json === true) printJson(context, created)
  else {
    print(context, created.key)
    printError(context, `ork: key ${created.id} (${created.scopes.join(", ")}); it cannot be shown again`)
  }
  return 0
}

export const revokeKey = async (context: Context, id: string, options: ServerFlags): Promise<number> => {
  await (await connect(context, options)).removeKey(id)
  return printResult(context, options, { revoked: id }, `key ${id} is revoked`)
}
