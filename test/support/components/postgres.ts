// Fresh Postgres databases for tests. The server is the one of TEST_DATABASE_URL; otherwise the one of this test run, which
// global-setup.ts starts on the first request; for a script outside vitest, a server that ends with the process. Without a Postgres,
// createDatabase throws: no test is skipped.

import { randomBytes } from "node:crypto"
import { connect } from "node:net"
import { text } from "node:stream/consumers"
import { Client, type QueryResultRow } from "pg"
import { startPostgres } from "./postgres-server.ts"

export interface TestDatabase {
  readonly url: string
  /** Drops the database and closes all connections to it. */
  drop(): Promise<void>
}

/** Creates a database, as a copy of `template` if given, which must have no connections. */
export const createDatabase = async ({ template = "template0" } = {}): Promise<TestDatabase> => {
  const server = await serverUrl()
  const name = `ork_test_${process.pid}_${randomBytes(6).toString("hex")}`
  await ask(server, `CREATE DATABASE "${name}" TEMPLATE "${template}"`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return {
    url: url.href,
    drop: async () => {
      await ask(server, `DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`)
    },
  }
}

let known: Promise<string> | undefined

const serverUrl = (): Promise<string> => (known ??= findServer())

const findServer = async (): Promise<string> => {
  const given = process.env.TEST_DATABASE_URL
  if (given) return given
  const port = process.env.ORK_TEST_POSTGRES_PORT
  if (!port) return (await startPostgres()).url
  const reply = JSON.parse(await text(connect(Number(port), "127.0.0.1"))) as { url: string } | { error: string }
  if ("error" in reply) throw new Error(reply.error)
  return reply.url
}

/** Runs one statement on its own connection. */
export const ask = async <Row extends QueryResultRow>(url: string, sql: string, values: unknown[] = []): Promise<Row[]> => {
  const client = new Client({ connectionString: url })
  // The statement rejects too; without a listener the event would end the process.
  client.on("error", () => {})
  await client.connect()
  try {
    return (await client.query<Row>(sql, values)).rows
  } finally {
    await client.end()
  }
}
