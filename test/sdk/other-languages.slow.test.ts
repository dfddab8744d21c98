// The SQL function `enqueue` from other languages: what docs/sdk.md prints is run by psql and by Python with psycopg, on a real Postgres.

import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it, onTestFinished } from "vitest"
import { z } from "zod"
import { Ork, txTask } from "../../src/sdk/index.ts"
import { codeBlocks } from "../support/code-blocks.ts"
import { DEBIAN_PYTHON, installPackages, installPsycopg } from "../support/components/packages.ts"
import { ask, createDatabase } from "../support/components/postgres.ts"
import { temporaryFolder } from "../support/ork.ts"

const run = promisify(execFile)
const TIMEOUT_MS = 240_000

const printedIn = (language: string): string => {
  const found = codeBlocks().filter((block) => block.file === "docs/sdk.md" && block.language === language)
  expect(found).toHaveLength(1)
  return found[0]!.text
}

const charge = txTask(
  "charge",
  { input: z.object({ order: z.string(), cents: z.int() }) },
  async ({ order, cents }, { tx }) => {
    await tx.query("INSERT INTO public.ledger VALUES ($1, $2)", [order, cents])
    return { order }
  },
)

/** Runs a program on a database with Ork's tables and the user's, and returns what the job has written. */
const play = async (program: (url: string) => Promise<unknown>): Promise<unknown> => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  await ask(database.url, "CREATE TABLE orders (id text)")
  await ask(database.url, "CREATE TABLE ledger (id text, cents int)")
  const ork = await Ork.open({ database: database.url, objects: `file:${join(temporaryFolder(), "objects")}`, run: [charge] })
  onTestFinished(() => ork.stop({ grace: 0 }))
  await program(database.url)
  const jobs = await Array.fromAsync(ork.list({ def: charge }))
  await Promise.all(jobs.map((job) => job.result({ timeout: "60s" })))
  return await ask(database.url, "SELECT o.id, l.cents FROM orders o LEFT JOIN ledger l ON l.id = o.id")
}

it("psql runs the printed statements, and the job runs", { timeout: TIMEOUT_MS }, async () => {
  await installPackages(["psql"], ["postgresql-client"])
  const program = (url: string): Promise<unknown> =>
    run("psql", [
      "-v",
      "ON_ERROR_STOP=1",
      ...printedIn("sql")
        .trim()
        .split("\n")
        .flatMap((line) => ["-c", line]),
      url,
    ])
  expect(await play(program)).toEqual([{ id: "o1", cents: 4200 }])
})

it("Python runs the printed program, and the job runs", { timeout: TIMEOUT_MS }, async () => {
  await installPsycopg()
  const program = (url: string): Promise<unknown> =>
    run(DEBIAN_PYTHON, ["-c", printedIn("python")], { env: { ...process.env, DATABASE_URL: url } })
  expect(await play(program)).toEqual([{ id: "o1", cents: 4200 }])
})
