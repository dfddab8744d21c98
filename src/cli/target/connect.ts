// Which server a command speaks to, and with which key: `--url` or ORK_URL, else the server of this folder, which tells its address
// in `.ork/server.json`, else the address that `ork serve` takes. The key: `--api-key` or ORK_API_KEY, else `.ork/admin.key`.

import { readFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import type { Context } from "./backends.ts"
import { readServerFile } from "./server-file.ts"
import { loadConfig } from "./settings.ts"
import type { Config } from "../../config.ts"
import { Client } from "../../protocol/client/client.ts"

export interface ServerFlags {
  url?: string
  apiKey?: string
}

/** `found`: somebody said so, or a server of this folder lives. */
export interface ServerAddress {
  url: string
  found: boolean
  key: string | null
}

const LOCAL_HOSTS: readonly string[] = ["127.0.0.1", "localhost", "[::1]"]
/** A server of this machine that does not answer for so long is as good as none. */
const PROBE_MS = 2000

export const loadServerConfig = (context: Context, { url, apiKey }: ServerFlags): Promise<Config> =>
  loadConfig(context, { url, apiKey })

export const serverAddress = async (context: Context, config: Config): Promise<ServerAddress> => {
  const folder = resolve(context.cwd, config.dataDir)
  const own = await readServerFile(folder)
  const host = config.host.includes(":") ? `[${config.host}]` : config.host
  const url = config.url || own || `http://${host}:${config.port}`
  return { url, found: config.url !== "" || own !== null, key: config.apiKey || (await folderKey(folder, url, own)) }
}

/** The folder's admin key is shown to the folder's own server and to this machine, never to any other. */
const folderKey = async (folder: string, url: string, own: string | null): Promise<string | null> => {
  if (url !== own && !LOCAL_HOSTS.includes(new URL(url).hostname)) return null
  const text = await readFile(join(folder, "admin.key"), "utf8").catch(() => "")
  return text.trim() === "" ? null : text.trim()
}

/** For commands that cannot do without one. */
export const connect = async (context: Context, flags: ServerFlags): Promise<Client> => {
  const { url, key } = await serverAddress(context, await loadServerConfig(context, flags))
  return new Client({ url, key })
}

/**
 * For commands that can: null where nobody said which server and none of this folder answers. One that was said is not asked
 * first: if it is away, its commands say so.
 */
export const connectIfThere = async (context: Context, flags: ServerFlags): Promise<Client | null> => {
  const config = await loadServerConfig(context, flags)
  const { url, found, key } = await serverAddress(context, config)
  if (!found) return null
  if (config.url === "") {
    const answers = await new Client({ url, retries: 0, timeoutMs: PROBE_MS }).health().catch(() => null)
    if (answers === null) return null
  }
  return new Client({ url, key })
}
