// `.ork/server.json` holds the address of the server of this folder. `ork serve` writes it, and touches it while it runs; other commands
// read it.

import { mkdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { isObject } from "../../core/values/json.ts"

const fileOf = (dataDir: string): string => join(dataDir, "server.json")

/** Time between two touches of the file. */
const TOUCH_MS = 5000

/** Returns a function that removes the file, unless another server has overwritten it. */
export const writeServerFile = async (dataDir: string, url: string): Promise<() => Promise<void>> => {
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  await writeFile(fileOf(dataDir), `${JSON.stringify({ url, pid: process.pid })}\n`, { mode: 0o600 })
  const touch = setInterval(() => void utimes(fileOf(dataDir), new Date(), new Date()).catch(() => {}), TOUCH_MS).unref()
  return async () => {
    clearInterval(touch)
    if ((await read(dataDir))?.pid === process.pid) await rm(fileOf(dataDir), { force: true })
  }
}

/** Returns the server's address, or null if there is no server or its process is dead. */
export const readServerFile = async (dataDir: string): Promise<string | null> => {
  const server = await readKnownServer(dataDir)
  return server === null || !server.alive ? null : server.url
}

/** The server that this folder had last. It removes its file when it stops, so the server runs, hangs or was killed. */
export interface KnownServer {
  url: string
  /** null: unknown. */
  pid: number | null
  /** Whether its process exists. */
  alive: boolean
  /** When the server last touched the file. */
  lastSeenAt: string
}

export const readKnownServer = async (dataDir: string): Promise<KnownServer | null> => {
  const server = await read(dataDir)
  const file = await stat(fileOf(dataDir)).catch(() => null)
  if (server === null || file === null) return null
  const alive = server.pid === null || processIsAlive(server.pid)
  return { url: server.url.replace(/\/+$/, ""), pid: server.pid, alive, lastSeenAt: file.mtime.toISOString() }
}

const read = async (dataDir: string): Promise<{ url: string; pid: number | null } | null> => {
  const content = parse(await readFile(fileOf(dataDir), "utf8").catch(() => "null"))
  if (!isObject(content) || typeof content["url"] !== "string" || !URL.canParse(content["url"])) return null
  return { url: content["url"], pid: typeof content["pid"] === "number" ? content["pid"] : null }
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

const processIsAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}
