// Programs whose handlers block the event loop, with the built package, beside a second program on the same database.

import { type ChildProcess, spawn } from "node:child_process"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Ork, task } from "../../src/sdk/index.ts"
import { expect, it, onTestFinished, vi } from "vitest"
import { REPO, temporaryFolder } from "../support/ork.ts"
import { createDatabase } from "../support/components/postgres.ts"

const TIMEOUT = { timeout: 120_000, interval: 50 }
/** Longer than the lease of a program on Postgres, and than the time in which another one notices its end. */
const BLOCKED_MS = 14_000

/** Says in which program it runs. In the first one it blocks the event loop. */
const APP = `
import { Ork, task } from "ork"
const { DATABASE, STALL_LIMIT, BLOCK_MS } = process.env
const work = task("work", {}, () => {
  console.log("begun")
  const until = Date.now() + Number(BLOCK_MS)
  while (Date.now() < until);
  return "first"
})
await Ork.open({ database: DATABASE, objects: "file:objects", run: [work], ...(STALL_LIMIT && { stallLimit: STALL_LIMIT }) })
console.log("open")
`

interface Program {
  child: ChildProcess
  output(): string
}

const start = (folder: string, env: Record<string, string>): Program => {
  mkdirSync(join(folder, "node_modules"))
  symlinkSync(REPO, join(folder, "node_modules/ork"))
  writeFileSync(join(folder, "app.mjs"), APP)
  const child = spawn(process.execPath, ["app.mjs"], { cwd: folder, env: { ...process.env, ...env }, stdio: "pipe" })
  onTestFinished(() => void child.kill("SIGKILL"))
  let output = ""
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data: Buffer) => (output += data.toString()))
  return { child, output: () => output }
}

/** Starts a job in a program that blocks, then a second program that could run it too. */
const setup = async (kind: "sqlite" | "postgres", env: { BLOCK_MS: string; STALL_LIMIT?: string }) => {
  const folder = temporaryFolder()
  const created = kind === "postgres" ? await createDatabase() : null
  onTestFinished(async () => await created?.drop())
  const database = created?.url ?? `sqlite:${join(folder, "app.db")}`
  const program = start(folder, { ...env, DATABASE: database })
  await vi.waitUntil(() => program.output().includes("open"), TIMEOUT)
  const work = task("work", {}, () => "second")
  const objects = `file:${join(folder, "objects")}`
  const producer = await Ork.open({ database, objects, run: [] })
  const job = await producer.enqueue(work, {})
  await vi.waitUntil(() => program.output().includes("begun"), TIMEOUT)
  await producer.stop()
  const second = await Ork.open({ database, objects, run: [work] })
  onTestFinished(() => second.stop())
  const found = await second.get(job.id)
  return { program, job: found! }
}

it.each(["sqlite", "postgres"] as const)(
  "a program on %s whose event loop is blocked keeps its work",
  { timeout: 240_000 },
  async (kind) => {
    const { job, program } = await setup(kind, { BLOCK_MS: String(BLOCKED_MS) })
    expect(await job.result()).toBe("first")
    expect(await job.refresh()).toMatchObject({ attempts: 1 })
    expect(program.output()).not.toContain("stall limit")
  },
)

it.each(["sqlite", "postgres"] as const)(
  "a program on %s that hangs for longer than its stall limit loses its work, and says so",
  { timeout: 240_000 },
  async (kind) => {
    const { job, program } = await setup(kind, { BLOCK_MS: "40000", STALL_LIMIT: "2s" })
    expect(await job.result()).toBe("second")
    expect(program.output()).toContain("ork: error: the event loop has been blocked for 2 s, the stall limit")
    // The result of the program comes too late, and the program goes on.
    await vi.waitUntil(() => program.output().includes("the lease was lost; registering under a new id"), TIMEOUT)
    expect(await (await job.refresh()).result()).toBe("second")
    expect(program.child.exitCode).toBeNull()
  },
)
