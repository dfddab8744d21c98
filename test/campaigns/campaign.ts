// Shared by the commands of the campaigns: flags, and a fresh store for a world.

import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createDatabase } from "../support/components/postgres.ts"

export type StoreKind = "sqlite" | "postgres"

/** Reads a positive whole number from a flag; exits with 2 if it is none. */
export const count = (flag: string, text: string): number => {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value > 0) return value
  console.error(`--${flag} takes a positive whole number, not ${text}`)
  process.exit(2)
}

/** Calls `use` for each item, for `lanes` of them at a time. Returns the results in the order of the items. */
export const mapInLanes = async <T, R>(items: readonly T[], lanes: number, use: (item: T) => Promise<R>): Promise<R[]> => {
  const results: R[] = []
  const left = items.entries()
  const lane = async (): Promise<void> => {
    for (const [i, item] of left) results[i] = await use(item)
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return results
}

/** Calls `use` with an empty folder that any user can enter. */
export const withFolder = async <T>(use: (folder: string) => Promise<T>): Promise<T> => {
  const folder = mkdtempSync(join(tmpdir(), "ork-campaign-"))
  chmodSync(folder, 0o755)
  try {
    return await use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Calls `use` with a folder, and the variables that select an empty store of its own. */
export const withStore = <T>(
  kind: StoreKind,
  use: (folder: string, variables: Record<string, string>) => Promise<T>,
): Promise<T> =>
  withFolder(async (folder) => {
    const objects = { ORK_OBJECT_STORE: `file:${join(folder, "objects")}` }
    if (kind === "sqlite") return use(folder, { ...objects, ORK_DATABASE_URL: `sqlite:${join(folder, "ork.db")}` })
    const database = await createDatabase()
    try {
      return await use(folder, { ...objects, ORK_DATABASE_URL: database.url })
    } finally {
      await database.drop()
    }
  })
