// Counts and checksums of copied tables.

import { createHash, type Hash } from "node:crypto"
import { Conflict } from "../contract/errors.ts"
import type { TableChunk, TableDigests } from "../contract/transfer.ts"
import { SEQUENCES } from "./tables.ts"

export class TableDigester {
  readonly #tables = new Map<string, { rows: number; hash: Hash }>()

  add({ table, rows }: TableChunk): void {
    if (table === SEQUENCES) return
    let found = this.#tables.get(table)
    if (found === undefined) this.#tables.set(table, (found = { rows: 0, hash: createHash("sha256") }))
    found.rows += rows.length
    for (const row of rows) found.hash.update(`${JSON.stringify(row)}\n`)
  }

  digests(): TableDigests {
    return Object.fromEntries(
      [...this.#tables].map(([table, { rows, hash }]) => [table, { rows, sha256: hash.copy().digest("hex") }]),
    )
  }
}

/** Throws a Conflict that names the first table of the copy that differs from its source. */
export const compareDigests = (where: string, source: TableDigests, copy: TableDigests): void => {
  for (const [table, { rows, sha256 }] of Object.entries(source)) {
    const found = copy[table]
    if (found?.sha256 === sha256) continue
    throw new Conflict(
      `the copy in ${where} differs from its source: table ${table} has ${found?.rows ?? 0} of ${rows} rows, or other values; nothing was stored`,
    )
  }
}

/** Returns the error for a target that has tables. */
export const notBlank = (where: string, advice: string): Conflict =>
  new Conflict(`the database ${where} already has tables of Ork: ${advice}`)
