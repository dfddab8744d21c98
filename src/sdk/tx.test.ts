// Adapters with the real libraries on Postgres: a job exists when the library's transaction commits.

import pg from "pg"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { createDatabase, type TestDatabase } from "../../test/support/postgres.ts"
import { task } from "./definitions.ts"
import { TransactionError } from "./errors.ts"
import { Ork } from "./ork.ts"
import { type AdaptedTransaction, fromDrizzle, fromKnex, fromKysely } from "./tx.ts"

const echo = task("echo", {}, (input) => input as string)

/** Texts that a library must not change. */
const INPUT = 'it\'s \\ a $1 ? "test" {1,2} 🎉 \n\0'

let database: TestDatabase
let other: TestDatabase
let ork: Ork

beforeAll(async () => {
  database = await createDatabase()
  other = await createDatabase()
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  ork = await Ork.open({ database: database.url, run: [], log })
})
afterAll(async () => {
  await ork.stop()
  await database.drop()
  await other.drop()
})

type Transact = (work: (tx: AdaptedTransaction) => Promise<void>) => Promise<void>

const poolOf = (url: string): pg.Pool => {
  const pool = new pg.Pool({ connectionString: url })
  pool.on("error", () => {})
  return pool
}

/** The part of each library that the tests use. The libraries are loaded by name, so that a type check does not need them. */
interface Drizzle {
  drizzle(pool: pg.Pool): { transaction(work: (tx: Parameters<typeof fromDrizzle>[0]) => Promise<void>): Promise<void> }
}

interface KyselyLibrary {
  Kysely: new (options: { dialect: object }) => {
    destroy(): Promise<void>
    transaction(): { execute(work: (trx: Parameters<typeof fromKysely>[0]) => Promise<void>): Promise<void> }
  }
  PostgresDialect: new (options: { pool: pg.Pool }) => object
}

interface KnexLibrary {
  default(options: { client: string; connection: string }): {
    destroy(): Promise<void>
    transaction(work: (trx: Parameters<typeof fromKnex>[0]) => Promise<void>): Promise<void>
  }
}

const load = async (name: string): Promise<unknown> => await import(name)
const { drizzle } = (await load("drizzle-orm/node-postgres")) as Drizzle
const { Kysely, PostgresDialect } = (await load("kysely")) as KyselyLibrary
const { default: knex } = (await load("knex")) as KnexLibrary

const LIBRARIES: Record<string, (url: string) => Transact> = {
  drizzle: (url) => {
    const pool = poolOf(url)
    onTestFinished(() => pool.end())
    return (work) => drizzle(pool).transaction((tx) => work(fromDrizzle(tx)))
  },
  kysely: (url) => {
    const db = new Kysely({ dialect: new PostgresDialect({ pool: poolOf(url) }) })
    onTestFinished(() => db.destroy())
    return (work) => db.transaction().execute((trx) => work(fromKysely(trx)))
  },
  knex: (url) => {
    const db = knex({ client: "pg", connection: url })
    onTestFinished(() => db.destroy())
    return (work) => db.transaction((trx) => work(fromKnex(trx)))
  },
}

describe.each(Object.entries(LIBRARIES))("a transaction of %s", (_, library) => {
  it("creates jobs when it commits", async () => {
    const ids: string[] = []
    await library(database.url)(async (tx) => {
      ids.push((await ork.enqueue(echo, INPUT, { tx, delay: "1h" })).id)
      for (const job of await ork.enqueueAll(echo, ["a", "b"], { tx })) ids.push(job.id)
      expect(await ork.get(ids[0]!)).toBeNull()
    })
    const jobs = await Promise.all(ids.map((id) => ork.get(id)))
    expect(jobs.map((job) => job!.input)).toEqual([INPUT, "a", "b"])
  })

  it("creates none when it rolls back", async () => {
    let id = ""
    const rolledBack = library(database.url)(async (tx) => {
      id = (await ork.enqueue(echo, "x", { tx })).id
      throw new Error("roll back")
    })
    await expect(rolledBack).rejects.toThrow("roll back")
    expect(await ork.get(id)).toBeNull()
  })

  it("finds the job of a key, and says when it is taken", async () => {
    const key = `key ${Math.random()}`
    const first = await ork.enqueue(echo, "x", { key })
    await library(database.url)(async (tx) => {
      expect(await ork.enqueue(echo, "y", { key, tx })).toMatchObject({ id: first.id, created: false, input: "x" })
    })
    const taken = library(database.url)(async (tx) => {
      await ork.enqueue(echo, "y", { key, tx, onConflict: "error" })
    })
    await expect(taken).rejects.toThrow(first.id)
  })

  it("is rejected when it is on another database", async () => {
    const foreign = library(other.url)(async (tx) => {
      await ork.enqueue(echo, "x", { tx })
    })
    await expect(foreign).rejects.toThrow(TransactionError)
  })
})
