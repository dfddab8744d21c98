// Statements that share one round trip: all that a caller sends before it awaits one. Each is written at once, so that Postgres
// starts while Node prepares the next; the one Sync that asks for the replies follows when Node returns to its event loop.
//
// A pipeline succeeds or fails as a whole: Postgres skips statements behind a failed one, and earlier ones are rolled back with
// their transaction. So all its statements resolve at its end, or reject with the first error.

import pg from "pg"
import type { Statement, Value } from "./statement.ts"

interface Column {
  name: string
  parse: (text: string) => unknown
}

/** A statement that the connection has prepared. Two statements may share a name, so the text identifies it. */
export interface Prepared {
  readonly text: string
  columns: readonly Column[]
  /** A row of NULLs to copy: faster and smaller than adding one column after the other. */
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
  /** Prepared statements of the connection by name. Pipelines add to it. */
  prepared: Map<string, Prepared>
  /** Returns the parser of values of the type with that number. */
  parserOf(type: number): Column["parse"]
  /** Converts an error to the one that callers get. */
  toError(error: unknown): unknown
  /** Called when a pipeline has its replies, or failed. */
  ended?(): void
}

/** A subclass of pg.Query, because pg pipelines only its own queries. pg calls `submit`, `handle…` and `callback`. */
export class Pipeline extends pg.Query {
  readonly #deps: PipelineDeps
  readonly #calls: Call[] = []
  /** Statements whose preparation was sent, by name. The connection knows them once they were answered. */
  readonly #preparing = new Map<string, Prepared>()
  #answered = 0
  /** The first error of reading a row. */
  #parseError: unknown
  #connection: pg.Connection | undefined
  #open = true

  constructor(deps: PipelineDeps) {
    super("")
    this.#deps = deps
    // The microtask comes first: a tick alone would run before pending microtasks of a caller that is not in one.
    queueMicrotask(() => process.nextTick(() => this.seal()))
  }

  /** Whether statements may be added. */
  get open(): boolean {
    return this.#open
  }

  override submit = (connection: pg.Connection): void => {
    this.#connection = connection
    connection.stream.cork()
  }

  /** Adds a statement. `buffered`: it is written together with the next one. */
  add<Row>(statement: Statement, values: readonly Value[], buffered = false): Promise<Row[]> {
    return new Promise((resolve, reject) => {
      const prepared = this.#send(statement, values)
      this.#calls.push({ name: statement.name, prepared, rows: [], resolve: (rows) => resolve(rows as Row[]), reject })
      if (buffered) return
      this.#connection?.stream.uncork()
      this.#connection?.stream.cork()
    })
  }

  /** Ends the pipeline and asks for the replies. */
  seal(): void {
    this.#open = false
    const connection = this.#connection
    this.#connection = undefined
    connection?.sync()
    connection?.stream.uncork()
  }

  #send({ name, text }: Statement, values: readonly Value[]): Prepared {
    // A statement without a name is replaced by the next one.
    const known = name === "" ? undefined : (this.#deps.prepared.get(name) ?? this.#preparing.get(name))
    const prepared = known?.text === text ? known : { text, columns: [], blank: {} }
    if (prepared !== known) {
      this.#deps.prepared.delete(name)
      this.#preparing.set(name, prepared)
      // A statement that failed when it first ran is prepared already.
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
      this.#parseError ??= error
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

  /** Called by pg when all statements were answered, when one failed, and when the replies time out. */
  callback: (error: unknown) => void = (error) => {
    this.#open = false
    this.#deps.ended?.()
    const reason = error ?? this.#parseError
    if (reason === undefined) return this.#calls.forEach(({ resolve, rows }) => resolve(rows))
    const failure = this.#deps.toError(reason)
    for (const { reject } of this.#calls) reject(failure)
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
