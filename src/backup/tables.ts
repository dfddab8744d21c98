// The tables of a backup: one file each.

import { createHash } from "node:crypto"
import { createReadStream } from "node:fs"
import { type FileHandle, mkdir, open } from "node:fs/promises"
import type { Cell, Dump, TableChunk } from "../store/contract/transfer.ts"
import { ROWS_PER_CHUNK } from "../store/shared/tables.ts"
import { damaged, type Manifest, tableFile } from "./manifest.ts"

/** Writes every table and returns the number of its rows and the checksum of its file. */
export const writeTables = async (folder: string, dump: Dump): Promise<Manifest["tables"]> => {
  await mkdir(tableFile(folder, ""), { recursive: true, mode: 0o700 })
  const written: Manifest["tables"] = {}
  let current: TableWriter | null = null
  const finish = async (): Promise<void> => {
    if (current !== null) written[current.table] = await current.finish()
  }
  for await (const chunk of dump.chunks) {
    if (current?.table !== chunk.table) {
      await finish()
      current = await TableWriter.create(folder, chunk)
    }
    await current.write(chunk.rows)
  }
  await finish()
  return written
}

class TableWriter {
  readonly table: string
  readonly #file: FileHandle
  readonly #hash = createHash("sha256")
  #rows = 0

  private constructor(table: string, file: FileHandle) {
    this.table = table
    this.#file = file
  }

  static async create(folder: string, { table, columns }: TableChunk): Promise<TableWriter> {
    const writer = new TableWriter(table, await open(tableFile(folder, table), "wx", 0o600))
    await writer.#append(`${JSON.stringify(columns)}\n`)
    return writer
  }

  async write(rows: TableChunk["rows"]): Promise<void> {
    this.#rows += rows.length
    await this.#append(rows.map((row) => `${JSON.stringify(row)}\n`).join(""))
  }

  async finish(): Promise<Manifest["tables"][string]> {
    await this.#file.sync()
    await this.#file.close()
    return { rows: this.#rows, sha256: this.#hash.digest("hex") }
  }

  async #append(text: string): Promise<void> {
    this.#hash.update(text)
    await this.#file.appendFile(text)
  }
}

/** Throws a BackupError if a table is missing, incomplete or changed. */
export const verifyTables = async (folder: string, { tables }: Manifest): Promise<void> => {
  for (const [table, { sha256 }] of Object.entries(tables)) {
    const hash = createHash("sha256")
    try {
      for await (const bytes of createReadStream(tableFile(folder, table))) hash.update(bytes as Buffer)
    } catch {
      throw damaged(folder, `tables/${table} cannot be read`)
    }
    if (hash.digest("hex") !== sha256) throw damaged(folder, `tables/${table} does not match its checksum`)
  }
}

/** Returns the tables of a verified backup. */
export const readTables = (folder: string, manifest: Manifest): Dump => ({
  schemaVersion: manifest.schema_version,
  chunks: chunksOf(folder, Object.keys(manifest.tables)),
})

async function* chunksOf(folder: string, tables: readonly string[]): AsyncGenerator<TableChunk> {
  for (const table of tables) {
    let columns: string[] | null = null
    let rows: Cell[][] = []
    for await (const line of linesOf(tableFile(folder, table))) {
      if (columns === null) columns = JSON.parse(line) as string[]
      else rows.push(JSON.parse(line) as Cell[])
      if (rows.length < ROWS_PER_CHUNK) continue
      yield { table, columns, rows }
      rows = []
    }
    yield { table, columns: columns ?? [], rows }
  }
}

/** Yields the lines of a file. readline would also split at U+2028, which JSON texts may contain. */
async function* linesOf(path: string): AsyncGenerator<string> {
  let rest = ""
  for await (const text of createReadStream(path, "utf8")) {
    const lines = `${rest}${String(text)}`.split("\n")
    rest = lines.pop()!
    yield* lines
  }
}
