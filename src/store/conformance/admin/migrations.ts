// Protects released migrations from edits. `migrations.lock` beside the migrations of a store holds one line for each: its number
// and the SHA-256 of its text. A new migration adds a line; an existing line never changes.

import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { expect, it } from "vitest"

const checksum = (migration: string): string => createHash("sha256").update(migration).digest("hex")

export const migrationLockSuite = (migrations: readonly string[], lockFile: URL): void => {
  const locked = readFileSync(lockFile, "utf8").trim().split("\n")

  it("are append-only: no released migration was edited or removed", () => {
    for (const [i, line] of locked.entries())
      expect(`${i + 1} ${checksum(migrations[i] ?? "")}`, `migration ${i + 1} is released; write a new one instead`).toBe(line)
  })

  it("are all in migrations.lock", () => {
    const missing = migrations.slice(locked.length).map((migration, i) => `${locked.length + i + 1} ${checksum(migration)}`)
    expect(missing, "append these lines to migrations.lock").toEqual([])
  })
}
