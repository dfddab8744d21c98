// Finds the server that a command talks to, and the key for it. Address: `--url` or ORK_URL, then `.ork/server.json` of this
// folder's server, then the default address of `ork serve`. Key: `--api-key` or ORK_API_KEY, then `.ork/admin.key`, which is sent only to a
// server that has proved that it has that key: anybody may listen at an address.

import { randomBytes } from "node:crypto"
import { lookup } from "node:dns/promises"
import { readFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import type { Context } from "./context.ts"
import { type KnownServer, readKnownServer, readServerFile } from "./server-file.ts"
import { loadConfig } from "./load-config.ts"
import { InputError, UnresponsiveServer } from "../terminal/errors.ts"
import { localZone, zonedText } from "../terminal/times.ts"
import type { Config } from "../../config.ts"
import { Client } from "../../protocol/client/client.ts"
import { ClientError } from "../../protocol/client/errors.ts"
import { addressOf, isProven, type ProvenAddress } from "../../protocol/wire/server-proof.ts"

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
}

/** A server of this machine that does not respond within this time counts as not running. */
const PROBE_MS = 2000
const NONCE_BYTES = 16

export const loadServerConfig = (context: Context, { url, apiKey }: ServerFlags): Promise<Config> =>
  loadConfig(context, { url, apiKey })

export const serverAddress = async (context: Context, config: Config): Promise<ServerAddress> => {
  const own = await readServerFile(resolve(context.cwd, config.dataDir))
  const host = config.host.includes(":") ? `[${config.host}]` : config.host
  return { url: config.url || own || `http://${host}:${config.port}`, known: config.url !== "" || own !== null }
}

/** Reads the folder's admin key; null without one. */
export const readFolderKey = async (context: Context, config: Config): Promise<string | null> => {
  const text = await readFile(keyFile(context, config), "utf8").catch(() => "")
  return text.trim() === "" ? null : text.trim()
}

const keyFile = (context: Context, config: Config): string => join(resolve(context.cwd, config.dataDir), "admin.key")

/** Returns the error for a server that responds, but has another key than the folder. */
export const notProven = (url: string): InputError =>
  new InputError(
    `the server at ${url} did not prove that it is the one of this folder, so the key of this folder was not sent; name the key of that server with --api-key or ORK_API_KEY`,
  )

/**
 * Returns the key for a server: the user's, or that of the folder if the server proves that it has it too. Null without a key, and if no
 * server responds. Throws an InputError if another server responds.
 */
export const keyFor = async (context: Context, config: Config, url: string): Promise<string | null> => {
  if (config.apiKey !== "") return config.apiKey
  const key = await readFolderKey(context, config)
  const proven = key === null ? null : await proves(url, key)
  if (proven === false) throw notProven(url)
  return proven === true ? key : null
}

/** Returns the address of a server by its name, and by the addresses of that name. */
const addressesOf = async (url: string): Promise<ProvenAddress[]> => {
  const { host, port } = addressOf(url)
  const found = await lookup(host, { all: true }).catch(() => [])
  return [host, ...found.map(({ address }) => address)].map((each) => ({ host: each, port }))
}

/** Returns whether the server at this address has the key; null if no server responds. */
export const proves = async (url: string, key: string): Promise<boolean | null> => {
  const nonce = randomBytes(NONCE_BYTES).toString("hex")
  const health = await new Client({ url, key: null, retries: 0, timeoutMs: PROBE_MS })
    .health(nonce)
    .catch((error: unknown) => (error instanceof ClientError && error.code !== "UNREACHABLE" ? {} : null))
  if (health === null) return null
  const proofs = "proofs" in health ? (health.proofs ?? []) : []
  return isProven(proofs, { key, nonce, addresses: await addressesOf(url) })
}

/** Connects a command that requires a server. Throws an UnresponsiveServer if the folder had a server, which does not respond. */
export const connect = async (context: Context, flags: ServerFlags): Promise<Client> => {
  const config = await loadServerConfig(context, flags)
  const { url } = await serverAddress(context, config)
  const key = await keyFor(context, config, url)
  const known = config.url === "" ? await readKnownServer(resolve(context.cwd, config.dataDir)) : null
  if (known !== null && !(await responds(url))) throw new UnresponsiveServer(unresponsiveServerText(known, localZone(context)))
  return new Client({ url, key })
}

const unresponsiveServerText = ({ url, pid, alive, lastSeenAt }: KnownServer, zone: string): string => {
  const process = pid === null ? "" : `, process ${pid}`
  const seen = `the server of this folder (${url}${process}) does not respond; it was last seen at ${zonedText(lastSeenAt, zone)}`
  const started = "start it again with `ork serve`, or name another server with --url or ORK_URL"
  if (!alive) return `${seen}, and its process is gone without having been stopped: ${started}`
  const end = pid === null ? "end it" : `end it with \`kill ${pid}\``
  return `${seen}, and its process hangs, is suspended or is overloaded: see its log, or ${end} and ${started}`
}

/** Returns whether a server responds, whatever its response. */
const responds = async (url: string): Promise<boolean> =>
  await new Client({ url, key: null, retries: 0, timeoutMs: PROBE_MS }).health().then(
    () => true,
    (error: unknown) => error instanceof ClientError && error.code !== "UNREACHABLE",
  )

/**
 * Connects a command that also works without a server. Returns null if the user named no server and none of this folder
 * responds. A named server is not probed: if it is down, the command fails.
 */
export const connectIfRunning = async (context: Context, flags: ServerFlags): Promise<Client | null> => {
  const config = await loadServerConfig(context, flags)
  const { url, known } = await serverAddress(context, config)
  if (!known) return null
  if (config.url === "" && !(await responds(url))) return null
  return new Client({ url, key: await keyFor(context, config, url) })
}
