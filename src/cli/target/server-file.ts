// `.ork/server.json`: where the server of this folder listens, written by `ork serve` for the commands beside it.

import { mkdir, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { isObject } from "../../core/model/json.ts"

const fileOf = (dataDir: string): string => join(dataDir, "server.json")

/** Gives a function that takes it away again. */
export const writeServerFile = async (dataDir: string, url: string): Promise<() => Promise<void>> => {
  await mkdir(dataDir, { recursive: true })
  await writeFile(fileOf(dataDir), `${JSON.stringify({ url, pid: process.pid })}\n`)
  return async () => {
    // Another server of the folder may have written it anew: that one stays.
    if ((await read(dataDir))?.pid === process.pid) await rm(fileOf(dataDir), { force: true })
  }
}

/** null: there is no server, or it is dead. */
export const readServerFile = async (dataDir: string): Promise<string | null> => {
  const told = await read(dataDir)
  return told === null || (told.pid !== null && !processLives(told.pid)) ? null : told.url.replace(/\/+$/, "")
}

const read = async (dataDir: string): Promise<{ url: string; pid: number | null } | null> => {
  const told = parse(await readFile(fileOf(dataDir), "utf8").catch(() => "null"))
  if (!isObject(told) || typeof told["url"] !== "string" || !URL.canParse(told["url"])) return null
  return { url: told["url"], pid: typeof told["pid"] === "number" ? told["pid"] : null }
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

const processLives = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}
