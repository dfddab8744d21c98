// Transactions of a program that is killed, with the built package: ground truth is the table that the transactions write to.

import { type ChildProcess, spawn } from "node:child_process"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { once } from "node:events"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { DatabaseSync } from "node:sqlite"
import pg from "pg"
import { describe, expect, it, onTestFinished } from "vitest"
import { REPO, temporaryFolder } from "../support/ork.ts"
import { createDatabase } from "../support/components/postgres.ts"

interface App {
  /** Runs the program until it ends, or until it is killed. Returns what it printed. */
  run(env?: Record<string, string>, until?: (child: ChildProcess) => void): Promise<string>
  entries(): Promise<string[]>
}

const setUp = async (kind: "sqlite" | "postgres", program: string): Promise<App> => {
  const folder = temporaryFolder()
  mkdirSync(join(folder, "node_modules"))
  symlinkSync(REPO, join(folder, "node_modules/ork"))
  symlinkSync(join(REPO, "node_modules/pg"), join(folder, "node_modules/pg"))
  writeFileSync(join(folder, "app.mjs"), program)
  const { url, query } = kind === "sqlite" ? openFile(join(folder, "app.db")) : await openServer()
  await query("CREATE TABLE ledger (entry text)")
  return {
    run: async (env = {}, until) => {
      const child = spawn(process.execPath, ["app.mjs"], {
        cwd: folder,
        env: { ...process.env, DATABASE: url, ...env },
        stdio: ["ignore", "pipe", "inherit"],
      })
      let printed = ""
      child.stdout.on("data", (data: Buffer) => (printed += data.toString()))
      until?.(child)
      await once(child, "close")
      return printed
    },
    entries: async () => (await query("SELECT entry FROM ledger ORDER BY entry")).map(({ entry }) => entry),
  }
}

interface Server {
  url: string
  query(sql: string): Promise<{ entry: string }[]>
}

const openFile = (path: string): Server => {
  const handle = new DatabaseSync(path)
  handle.exec("PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 5000")
  onTestFinished(() => handle.close())
  return { url: `sqlite:${path}`, query: async (sql) => handle.prepare(sql).all() as { entry: string }[] }
}

const openServer = async (): Promise<Server> => {
  const database = await createDatabase()
  const client = new pg.Client({ connectionString: database.url })
  client.on("error", () => {})
  await client.connect()
  onTestFinished(async () => {
    await client.end()
    await database.drop()
  })
  return { url: database.url, query: async (sql) => (await client.query<{ entry: string }>(sql)).rows }
}

describe("a program that is killed at the commit of a txTask", () => {
  const PROGRAM = `
import pg from "pg"
import { Ork, txTask } from "ork"
const die = async () => {
  process.kill(process.pid, "SIGKILL")
  await new Promise(() => {})
}
let charging = false
const { query } = pg.Client.prototype
pg.Client.prototype.query = function (...args) {
  if (args[0] !== "COMMIT" || !charging) return query.apply(this, args)
  if (process.env.KILL === "before") return die()
  const committed = query.apply(this, args)
  return process.env.KILL === "after" ? committed.then(die) : committed
}
const charge = txTask("charge", {}, async ({ order }, { tx, attempt }) => {
  await tx.query("INSERT INTO ledger VALUES ($1)", [order])
  charging = true
  return { order, attempt }
})
const ork = await Ork.open({ database: process.env.DATABASE, objects: "file:objects", run: [charge] })
const job = await ork.enqueue(charge, { order: "o1" }, { key: "o1" })
console.log(JSON.stringify(await job.result()))
await ork.stop()
`

  it.each([
    ["before", 2],
    ["after", 1],
  ])("%s it, has charged once in the end", async (kill, attempt) => {
    const app = await setUp("postgres", PROGRAM)
    expect(await app.run({ KILL: kill })).toBe("")
    expect(await app.entries()).toEqual(kill === "after" ? ["o1"] : [])
    expect(JSON.parse(await app.run())).toEqual({ order: "o1", attempt })
    expect(await app.entries()).toEqual(["o1"])
  })
})

const FUNCTIONS = process.env["ORK_TEST_ALL"] === "1" ? 1000 : 200
const STEPS = 2
const KILLS = process.env["ORK_TEST_ALL"] === "1" ? 3 : 1

it.each(["sqlite", "postgres"] as const)(
  `step.tx of ${FUNCTIONS} functions on %s: every write has happened exactly once, although their process was killed`,
  { timeout: 240_000 },
  async (kind) => {
    const app = await setUp(
      kind,
      `
import { Ork, workflow } from "ork"
const work = workflow("work", {}, async ({ n }, step) => {
  for (let i = 0; i < ${STEPS}; i++) {
    await step.tx("step " + i, async (tx) => {
      await tx.query("INSERT INTO ledger VALUES ($1)", [n + " " + i])
      return i
    })
  }
  return n
})
const ork = await Ork.open({ database: process.env.DATABASE, objects: "file:objects", run: [work] })
const runs = await Promise.all(Array.from({ length: ${FUNCTIONS} }, (_, n) => ork.enqueue(work, { n }, { key: "f" + n })))
const results = await Promise.all(runs.map((run) => run.result()))
console.log("ended " + results.length)
await ork.stop()
`,
    )
    /** Kills the program when it has made this many writes. */
    const killAt = async (child: ChildProcess, count: number): Promise<void> => {
      while (child.exitCode === null && (await app.entries()).length < count) await delay(20)
      child.kill("SIGKILL")
    }
    for (let kill = 1; kill <= KILLS; kill++) {
      const count = (kill * FUNCTIONS * STEPS) / (KILLS + 1)
      expect(await app.run({}, (child) => void killAt(child, count))).toBe("")
    }
    expect(await app.run()).toBe(`ended ${FUNCTIONS}\n`)
    const entries = await app.entries()
    expect(new Set(entries).size).toBe(FUNCTIONS * STEPS)
    expect(entries).toHaveLength(FUNCTIONS * STEPS)
  },
)
