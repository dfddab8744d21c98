// Three programs share the jobs of one database, with the built package: ground truth is what the handlers wrote themselves.

import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { expect, it, onTestFinished } from "vitest"
import { createDatabase } from "../support/components/postgres.ts"
import { REPO, temporaryFolder } from "../support/ork.ts"

const PROGRAMS = 3
const JOBS = 400

/** Enqueues all jobs as soon as its standard input ends, waits for all of them, and prints how many have its result. */
const APP = `
import { appendFileSync } from "node:fs"
import { text } from "node:stream/consumers"
import { setTimeout as delay } from "node:timers/promises"
import { Ork, task } from "ork"
const work = task("work", {}, async ({ n }) => {
  await delay(20)
  appendFileSync("effects.txt", n + " " + process.pid + "\\n")
  return n
})
const ork = await Ork.open({ database: process.env.DATABASE, objects: "file:objects", run: [work], concurrency: 5 })
console.log("open")
await text(process.stdin)
const jobs = await Promise.all(Array.from({ length: ${JOBS} }, (_, n) => ork.enqueue(work, { n }, { key: "job " + n })))
const results = await Promise.all(jobs.map((job) => job.result()))
console.log(new Set(results).size + " results")
await ork.stop()
`

it.each(["sqlite", "postgres"] as const)(
  `${PROGRAMS} programs on one database (%s) run ${JOBS} jobs, each once, and all of them get every result`,
  { timeout: 120_000 },
  async (kind) => {
    const folder = temporaryFolder()
    mkdirSync(join(folder, "node_modules"))
    symlinkSync(REPO, join(folder, "node_modules/ork"))
    writeFileSync(join(folder, "app.mjs"), APP)
    let database = "sqlite:app.db"
    if (kind === "postgres") {
      const created = await createDatabase()
      onTestFinished(() => created.drop())
      database = created.url
    }
    const start = (): ChildProcess =>
      spawn(process.execPath, ["app.mjs"], {
        cwd: folder,
        env: { ...process.env, DATABASE: database },
        stdio: ["pipe", "pipe", "inherit"],
      })
    const programs = Array.from({ length: PROGRAMS }, start)
    onTestFinished(() => programs.forEach((program) => void program.kill("SIGKILL")))
    await Promise.all(programs.map(({ stdout }) => once(stdout!, "data")))
    const printed = Promise.all(programs.map(({ stdout }) => text(stdout!)))
    for (const { stdin } of programs) stdin!.end()
    expect(await printed).toEqual(Array.from({ length: PROGRAMS }, () => `${JOBS} results\n`))
    const effects = readFileSync(join(folder, "effects.txt"), "utf8").trim().split("\n")
    const numbers = effects.map((line) => Number(line.split(" ")[0]))
    expect(numbers.toSorted((a, b) => a - b)).toEqual(Array.from({ length: JOBS }, (_, n) => n))
    expect(new Set(effects.map((line) => line.split(" ")[1])).size).toBe(PROGRAMS)
  },
)
