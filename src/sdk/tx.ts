// Adapters of libraries, the module that user code imports as "ork/tx": each returns the transaction of a library as `enqueue` takes it.
// They use the methods of the given object only, so that none of the libraries is a dependency.

/** A transaction as `enqueue` takes it. Its statements have no parameters. */
export interface AdaptedTransaction {
  query(text: string): Promise<{ rows: unknown[] }>
}

/** Adapts `tx` of `db.transaction(async (tx) => …)` of drizzle-orm, with any of its drivers for Postgres. */
export const fromDrizzle = (tx: { execute(query: string): PromiseLike<unknown>; rollback(): never }): AdaptedTransaction => ({
  query: async (text) => rowsOf(await tx.execute(text)),
})

/** Adapts `trx` of `db.transaction().execute(async (trx) => …)` of kysely. */
export const fromKysely = (trx: {
  readonly isTransaction: true
  executeQuery(query: KyselyQuery): PromiseLike<{ rows: unknown[] }>
}): AdaptedTransaction => ({
  query: async (text) => {
    const query = { kind: "RawNode", sqlFragments: [text], parameters: [] } as const
    return rowsOf(await trx.executeQuery({ sql: text, parameters: [], query, queryId: { queryId: "ork" } }))
  },
})

/** The part of kysely's CompiledQuery that a raw query has. */
interface KyselyQuery {
  readonly sql: string
  readonly parameters: readonly never[]
  readonly query: { readonly kind: "RawNode"; readonly sqlFragments: readonly string[]; readonly parameters: readonly never[] }
  readonly queryId: { readonly queryId: string }
}

/** Adapts `trx` of `knex.transaction(async (trx) => …)` of knex, with its driver pg. */
export const fromKnex = (trx: { raw(sql: string): PromiseLike<unknown>; commit(): unknown }): AdaptedTransaction => ({
  query: async (text) => rowsOf(await trx.raw(text)),
})

/** Adapts `tx` of `prisma.$transaction(async (tx) => …)` of Prisma. */
export const fromPrisma = (tx: {
  $queryRawUnsafe(query: string): PromiseLike<unknown>
  $transaction?: never
}): AdaptedTransaction => ({
  query: async (text) => rowsOf(await tx.$queryRawUnsafe(text)),
})

/** Drivers return a list of rows, or an object that has one. */
const rowsOf = (result: unknown): { rows: unknown[] } => {
  if (Array.isArray(result)) return { rows: result }
  if (typeof result === "object" && result !== null && "rows" in result && Array.isArray(result.rows))
    return { rows: result.rows }
  throw new TypeError("the library returned no rows: is it connected to Postgres?")
}
