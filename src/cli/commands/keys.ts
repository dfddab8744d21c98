// `ork keys`: list, create, revoke. A new key is printed once, alone on standard output, so that it can be put into a file.

import type { Context } from "../target/backends.ts"
import { oneOf } from "../terminal/choices.ts"
import { connect, type ServerFlags } from "../target/connect.ts"
import { InputError } from "../terminal/errors.ts"
import { instantText, printListing } from "../terminal/listing.ts"
import { print, printError, printJson } from "../terminal/output.ts"
import type { KeyScope } from "../../protocol/client/client.ts"

const SCOPES: readonly KeyScope[] = ["read", "trigger", "worker", "admin"]

export interface KeysOptions extends ServerFlags {
  json?: boolean
}

export const listKeys = async (context: Context, options: KeysOptions): Promise<number> => {
  const items = await (await connect(context, options)).listKeys()
  printListing(context, options.json === true, {
    items,
    none: "no keys but the server's own",
    header: ["key", "scopes", "created (UTC)", "last used (UTC)", "name"],
    row: (key) => [key.id, key.scopes.join(" "), instantText(key.created_at), instantText(key.last_used_at), key.name],
  })
  return 0
}

export interface CreateKeyOptions extends KeysOptions {
  scope: string[]
}

export const createKey = async (context: Context, name: string, options: CreateKeyOptions): Promise<number> => {
  if (options.scope.length === 0) throw new InputError(`say what the key may do: --scope ${SCOPES.join(", ")}; may be repeated`)
  const scopes = options.scope.map((scope) => oneOf("--scope", scope, SCOPES))
  const made = await (await connect(context, options)).createKey(name, scopes)
  if (options.json === true) printJson(context, made)
  else {
    print(context, made.key)
    printError(context, `ork: key ${made.id} (${made.scopes.join(", ")}); it is shown this once: keep it now`)
  }
  return 0
}

export const revokeKey = async (context: Context, id: string, options: KeysOptions): Promise<number> => {
  await (await connect(context, options)).removeKey(id)
  if (options.json === true) printJson(context, { revoked: id })
  else print(context, `key ${id} is revoked: whoever has it is out`)
  return 0
}
