// The layout of a backup, a folder:
//   manifest.json    versions, and the number and the SHA-256 of everything else; written last
//   tables/NAME      a line with the names of the columns, then a JSON array for each row
//   objects.ndjson   key, size and SHA-256 of each object
//   objects/KEY      the objects themselves
//   admin.key        the key of the data folder, if there is one

import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { z } from "zod"
import { messageOf } from "../core/values/error-message.ts"
import { BackupError } from "./errors.ts"

export const FORMAT = 1

export const manifestFile = (folder: string): string => join(folder, "manifest.json")
export const tableFile = (folder: string, table: string): string => join(folder, "tables", table)
export const objectListFile = (folder: string): string => join(folder, "objects.ndjson")
export const objectFolder = (folder: string): string => join(folder, "objects")
export const keyFile = (folder: string): string => join(folder, "admin.key")

const sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const count = z.int().min(0)

const manifest = z.object({
  format: z.int(),
  ork: z.string(),
  schema_version: count,
  created_at: z.string(),
  store: z.enum(["sqlite", "postgres"]),
  tables: z.record(z.string().regex(/^[a-z_]+$/), z.object({ rows: count, sha256 })),
  /** null: the objects were left out. */
  objects: z.object({ count, bytes: count, sha256 }).nullable(),
  /** null: the data folder had no key. */
  admin_key: z.object({ sha256 }).nullable(),
})

export type Manifest = z.infer<typeof manifest>

/** Reads the manifest. Throws a BackupError if the folder is not a backup, or one of a newer format. */
export const readManifest = async (folder: string): Promise<Manifest> => {
  const text = await readFile(manifestFile(folder), "utf8").catch((error: unknown) => {
    throw new BackupError(`${folder} is not a complete backup: its manifest.json cannot be read (${messageOf(error)})`)
  })
  const parsed = manifest.safeParse(parseJson(text))
  if (!parsed.success) throw damaged(folder, "manifest.json is not a manifest of a backup")
  if (parsed.data.format > FORMAT) {
    throw new BackupError(`${folder} was written by Ork ${parsed.data.ork} in a newer format: restore it with that version`)
  }
  return parsed.data
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

export const damaged = (folder: string, what: string): BackupError =>
  new BackupError(`the backup ${folder} is damaged: ${what}; use another backup`)
