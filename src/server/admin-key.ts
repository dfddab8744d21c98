// The server's own admin key where none was given: made once, kept in the data folder for the local command line, readable by this
// user alone.

import { chmod, link, mkdir, readFile, stat, unlink, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { Random } from "../core/model/ports.ts"
import { Conflict } from "../store/contract/errors.ts"

const PREFIX = "ork_"
const MIN_KEY = 16
const OWNER_ONLY = 0o600

export const adminKeyFile = (dataDir: string): string => join(dataDir, "admin.key")

/** The key of that folder, or null: there is none. */
export const readAdminKey = async (dataDir: string): Promise<string | null> => {
  const text = await readFile(adminKeyFile(dataDir), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return ""
    throw error
  })
  return text.trim() === "" ? null : text.trim()
}

/** Read, or made if there is none. A file that others may read is closed to them. */
export const ensureAdminKey = async (dataDir: string, random: Random): Promise<{ key: string; file: string }> => {
  const file = adminKeyFile(dataDir)
  const known = await readAdminKey(dataDir)
  if (known !== null) {
    if (known.length < MIN_KEY)
      throw new Conflict(`${file} holds no key of ${MIN_KEY} characters or more; remove it, and a new one is made`)
    if (((await stat(file)).mode & 0o077) !== 0) await chmod(file, OWNER_ONLY)
    return { key: known, file }
  }
  const key = PREFIX + random.hex128() + random.hex128()
  await mkdir(dirname(file), { recursive: true })
  // Whole or not at all, and never over another: of servers that start together the first one's key holds for all.
  const draft = `${file}.${random.hex128()}`
  await writeFile(draft, `${key}\n`, { mode: OWNER_ONLY })
  await link(draft, file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error
  })
  await unlink(draft)
  return { key: (await readAdminKey(dataDir)) ?? key, file }
}
