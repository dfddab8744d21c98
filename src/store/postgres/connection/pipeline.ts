// Statements that share one round trip: everything a caller sends before it waits. Each is written at once, so that Postgres
// begins while the next is prepared; the one Sync that asks for the answers, when Node would go back to its event loop.
//
// An exchange holds as a whole or not at all: Postgres skips what is behind a failure, and what was before it is undone with
// its transaction. So every statement of it is answered at its end, or fails with the first error.

import pg from "pg"
import type { Statement, Value } from "./connection.ts"

interface Column {
  name: string
  parse: (text: string) => unknown
}

/** What a connection knows of a statement that it has run before; its text, since a name may be used for another. */
export interface Prepared {
  readonly text: string
  columns: readonly Column[]
  /** A row of NULLs, to be copied: that is faster, and smaller, than to add one column after the other. */
  blank: Row
}

type Row = Record<string, unknown>

type Fields = readonly (string | null)[]

interface Call {
  readonly name: string
  readonly prepared: Prepared
  readonly rows: object[]
  resolve(rows: object[]): void
  reject(reason: unknown): void
}

export interface PipelineDeps {
  /** Of the connection, by name: filled here. */
  prepared: Map<string, Prepared>
  /** Reads values of the type with that number. */
  parserOf(type: number): Column["parse"]
  /** What callers get to see of an error. */
  asError(error: unknown): unknown
}

/** pg lets only its own queries follow each other without waiting, hence a subclass: it calls `submit`, `handle…`, `callback`. */
export class Pipeline extends pg.Query {
  readonly #deps: PipelineDeps
  readonly #calls: Call[] = []
  /** Sent to be prepared, by name. They are known to the connection only once they were answered. */
  readonly #preparing = new Map<string, Prepared>()
  #answered = 0
  /** Why a row could not be read. */
  #unreadable: unknown
  #connection: pg.Connection | undefined
  #open = true

  constructor(deps: PipelineDeps) {
    super("")
    this.#deps = deps
    // A tick alone would come before the microtasks when the caller is not in one itself.
    queueMicrotask(() => process.nextTick(() => this.seal()))
  }

  /** Statements may be added. */
  get open(): boolean {
    return this.#open
  }

  override submit = (connection: pg.Connection): void => {
    this.#connection = connection
    connection.stream.cork()
  }

  /** `waits`: the statement is written with what follows. */
  add<Row>(statement: Statement, values: readonly Value[], waits = false): Promise<Row[]> {
    return new Promise((resolve, reject) => {
      const prepared = this.#send(statement, values)
      this.#calls.push({ name: statement.name, prepared, rows: [], resolve: (rows) => resolve(rows as Row[]), reject })
      if (waits) return
      this.#connection?.stream.uncork()
      this.#connection?.stream.cork()
    })
  }

  /** Nothing is added any more: asks for the answers. */
  seal(): void {
    this.#open = false
    const connection = this.#connection
    this.#connection = undefined
    connection?.sync()
    connection?.stream.uncork()
  }

  #send({ name, text }: Statement, values: readonly Value[]): Prepared {
    const known = this.#deps.prepared.get(name) ?? this.#preparing.get(name)
    const prepared = known?.text === text ? known : { text, columns: [], blank: {} }
    if (prepared !== known) {
      this.#deps.prepared.delete(name)
      this.#preparing.set(name, prepared)
      // It may be there after all: prepared well, and failed when it ran.
      this.#connection?.close({ type: "S", name }, true)
      this.#connection?.parse({ name, text, types: [] }, true)
    }
    this.#connection?.bind({ statement: name, values: values.map((value) => value?.toString() ?? null) }, true)
    if (prepared !== known) this.#connection?.describe({ type: "P", name: "" }, true)
    this.#connection?.execute({}, true)
    return prepared
  }

  handleRowDescription({ fields }: { fields: readonly pg.FieldDef[] }): void {
    const columns = fields.map(({ name, dataTypeID }) => ({ name, parse: this.#deps.parserOf(dataTypeID) }))
    const { prepared } = this.#calls[this.#answered]!
    prepared.columns = columns
    prepared.blank = Object.fromEntries(columns.map(({ name }) => [name, null]))
  }

  handleDataRow({ fields }: { fields: Fields }): void {
    const { prepared, rows } = this.#calls[this.#answered]!
    try {
      rows.push(rowOf(prepared, fields))
    } catch (error) {
      this.#unreadable ??= error
    }
  }

  handleCommandComplete(): void {
    const { name, prepared } = this.#calls[this.#answered]!
    if (this.#preparing.get(name) === prepared) this.#deps.prepared.set(name, prepared)
    this.#answered += 1
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete()
  }

  /** The end, told by pg: by what it inherits when all is answered or one has failed, and when the answers take too long. */
  callback: (error: unknown) => void = (error) => {
    this.#open = false
    const reason = error ?? this.#unreadable
    if (reason === undefined) return this.#calls.forEach(({ resolve, rows }) => resolve(rows))
    const shown = this.#deps.asError(reason)
    for (const { reject } of this.#calls) reject(shown)
  }
}

const rowOf = ({ columns, blank }: Prepared, fields: Fields): Row => {
  const row = { ...blank }
  for (let i = 0; i < fields.length; i++) {
    const text = fields[i] ?? null
    const { name, parse } = columns[i]!
    if (text !== null) row[name] = parse(text)
  }
  return row
}
