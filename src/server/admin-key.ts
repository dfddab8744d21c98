// The server's own admin key, for servers without a configured one: created once and kept in the data folder, where the local command
// line reads it. Only the owner can read the file.

import { randomBytes } from "node:crypto"
import { chmod, link, readFile, stat, unlink } from "node:fs/promises"
import { join } from "node:path"
import type { Random } from "../core/model/ports.ts"
import { createDurableFolder, syncFolder, writeDurableFile } from "../objects/shared/durable-file.ts"
import { Conflict } from "../store/contract/errors.ts"

const PREFIX = "ork_"
const MIN_LENGTH = 16
const OWNER_ONLY = 0o600

export const adminKeyFile = (dataDir: string): string => join(dataDir, "admin.key")

/** Returns the key of a data folder; null when there is none. */
export const readAdminKey = async (dataDir: string): Promise<string | null> => {
  const text = await readFile(adminKeyFile(dataDir), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return ""
    throw error
  })
  return text.trim() === "" ? null : text.trim()
}

/** Reads the key, or creates it. Removes read permissions of other users. */
export const ensureAdminKey = async (dataDir: string, random: Random): Promise<{ key: string; file: string }> => {
  const file = adminKeyFile(dataDir)
  const existing = await readAdminKey(dataDir)
  if (existing !== null) {
    if (existing.length < MIN_LENGTH)
      throw new Conflict(
        `${file} does not contain a key of at least ${MIN_LENGTH} characters; remove it, and a new one is created`,
      )
    if (((await stat(file)).mode & 0o077) !== 0) await chmod(file, OWNER_ONLY)
    return { key: existing, file }
  }
  const key = PREFIX + random.hex128() + random.hex128()
  await storeAdminKey(dataDir, `${key}\n`)
  return { key: (await readAdminKey(dataDir)) ?? key, file }
}

/** Stores the key of a data folder, unless it has one. Links a complete file: servers that start together use the key of the first. */
export const storeAdminKey = async (dataDir: string, text: string): Promise<void> => {
  const file = adminKeyFile(dataDir)
  await createDurableFolder(dataDir)
  const draft = `${file}.${randomBytes(8).toString("hex")}`
  await writeDurableFile(draft, text)
  await link(draft, file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error
  })
  await unlink(draft)
  await syncFolder(dataDir)
}
