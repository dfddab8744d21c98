// `.ork/server.json` holds the address of the server of this folder. `ork serve` writes it; other commands read it.

import { mkdir, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { isObject } from "../../core/model/json.ts"

const fileOf = (dataDir: string): string => join(dataDir, "server.json")

/** Returns a function that removes the file, unless another server has overwritten it. */
export const writeServerFile = async (dataDir: string, url: string): Promise<() => Promise<void>> => {
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  await writeFile(fileOf(dataDir), `${JSON.stringify({ url, pid: process.pid })}\n`, { mode: 0o600 })
  return async () => {
    if ((await read(dataDir))?.pid === process.pid) await rm(fileOf(dataDir), { force: true })
  }
}

/** Returns the server's address, or null if there is no server or its process is dead. */
export const readServerFile = async (dataDir: string): Promise<string | null> => {
  const server = await read(dataDir)
  return server === null || (server.pid !== null && !processIsAlive(server.pid)) ? null : server.url.replace(/\/+$/, "")
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
