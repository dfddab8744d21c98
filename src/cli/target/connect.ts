// Finds the server that a command talks to, and the key for it. Address: `--url` or ORK_URL, then `.ork/server.json` of this
// folder's server, then the default address of `ork serve`. Key: `--api-key` or ORK_API_KEY, then `.ork/admin.key`.

import { readFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import type { Context } from "./context.ts"
import { readServerFile } from "./server-file.ts"
import { loadConfig } from "./load-config.ts"
import type { Config } from "../../config.ts"
import { Client } from "../../protocol/client/client.ts"

/** Flags of every command that talks to a server. */
export interface ServerFlags {
  url?: string
  apiKey?: string
  json?: boolean
}

export interface ServerAddress {
  url: string
  /** True if the user named the server or this folder's server is running; false for the default address. */
  known: boolean
  key: string | null
}

const LOCAL_HOSTS: readonly string[] = ["127.0.0.1", "localhost", "[::1]"]
/** A server of this machine that does not respond within this time counts as not running. */
const PROBE_MS = 2000

export const loadServerConfig = (context: Context, { url, apiKey }: ServerFlags): Promise<Config> =>
  loadConfig(context, { url, apiKey })

export const serverAddress = async (context: Context, config: Config): Promise<ServerAddress> => {
  const folder = resolve(context.cwd, config.dataDir)
  const own = await readServerFile(folder)
  const host = config.host.includes(":") ? `[${config.host}]` : config.host
  const url = config.url || own || `http://${host}:${config.port}`
  return { url, known: config.url !== "" || own !== null, key: config.apiKey || (await readAdminKey(folder, url, own)) }
}

/** Reads the folder's admin key. Returns null for remote servers: the key is sent only to this folder's server and this machine. */
const readAdminKey = async (folder: string, url: string, own: string | null): Promise<string | null> => {
  if (url !== own && !LOCAL_HOSTS.includes(new URL(url).hostname)) return null
  const text = await readFile(join(folder, "admin.key"), "utf8").catch(() => "")
  return text.trim() === "" ? null : text.trim()
}

/** Connects a command that requires a server. */
export const connect = async (context: Context, flags: ServerFlags): Promise<Client> => {
  const { url, key } = await serverAddress(context, await loadServerConfig(context, flags))
  return new Client({ url, key })
}

/**
 * Connects a command that also works without a server. Returns null if the user named no server and none of this folder
 * responds. A named server is not probed: if it is down, the command fails.
 */
export const connectIfRunning = async (context: Context, flags: ServerFlags): Promise<Client | null> => {
  const config = await loadServerConfig(context, flags)
  const { url, known, key } = await serverAddress(context, config)
  if (!known) return null
  if (config.url === "") {
    const health = await new Client({ url, retries: 0, timeoutMs: PROBE_MS }).health().catch(() => null)
    if (health === null) return null
  }
  return new Client({ url, key })
}
