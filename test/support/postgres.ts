// Fresh Postgres databases for tests. The server is, in this order: the one that TEST_DATABASE_URL names; the one of this
// test run, started by global-setup.ts when the first test asks; for a script outside vitest, one of its own that ends with
// the process. There is no way to skip: without a Postgres to start, asking for a database throws.

import { randomBytes } from "node:crypto"
import { connect } from "node:net"
import { text } from "node:stream/consumers"
import { Client, type QueryResultRow } from "pg"
import { startPostgres } from "./postgres-server.ts"

export interface TestDatabase {
  readonly url: string
  /** Ends whatever is still connected to it. */
  drop(): Promise<void>
}

/** `template` names a database that nobody is connected to, for a file that needs the same contents many times. */
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
  const answer = JSON.parse(await text(connect(Number(port), "127.0.0.1"))) as { url: string } | { error: string }
  if ("error" in answer) throw new Error(answer.error)
  return answer.url
}

/** One question on a connection of its own. */
export const ask = async <Row extends QueryResultRow>(url: string, sql: string, values: unknown[] = []): Promise<Row[]> => {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Row>(sql, values)).rows
  } finally {
    await client.end()
  }
}
