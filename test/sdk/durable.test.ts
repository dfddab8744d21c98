// Durable functions of a program that is killed, with the built package: ground truth is what the steps wrote themselves.

import { type ChildProcess, spawn } from "node:child_process"
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { once } from "node:events"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { REPO, temporaryFolder } from "../support/ork.ts"
import { createDatabase } from "../support/components/postgres.ts"

/** Returns the address of a new database, which is dropped after the test. */
const databaseUrl = async (): Promise<string> => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  return database.url
}

const FUNCTIONS = process.env["ORK_TEST_ALL"] === "1" ? 1000 : 60
const STEPS = 5
const KILLS = 3

/** Starts functions that are not there yet, and prints a line when all have ended. */
const APP = `
import { appendFileSync } from "node:fs"
import { Ork, workflow } from "ork"
const work = workflow("work", {}, async ({ n }, step) => {
  for (let i = 0; i < ${STEPS}; i++) {
    await step.run("step " + i, async () => {
      await new Promise((resolve) => setTimeout(resolve, 5))
      appendFileSync("effects.txt", n + " " + i + "\\n")
    })
    if (i === 2) await step.sleep("pause", "200ms")
  }
  return n
})
const ork = await Ork.open({ database: process.env.DATABASE, objects: "file:objects", run: [work], concurrency: 20 })
const runs = await Promise.all(Array.from({ length: ${FUNCTIONS} }, (_, n) => ork.enqueue(work, { n }, { key: "f" + n })))
const results = await Promise.all(runs.map((run) => run.result()))
console.log("ended " + results.length)
await ork.stop()
`

const start = (folder: string, database: string): ChildProcess =>
  spawn(process.execPath, ["app.mjs"], {
    cwd: folder,
    env: { ...process.env, DATABASE: database },
    stdio: ["ignore", "pipe", "inherit"],
  })

const effectsOf = (folder: string): string[] => {
  try {
    return readFileSync(join(folder, "effects.txt"), "utf8").trim().split("\n")
  } catch {
    return []
  }
}

/** Kills the program when it has written this many effects. */
const killAfter = async (child: ChildProcess, folder: string, effects: number): Promise<void> => {
  const exited = once(child, "exit")
  const timer = setInterval(() => {
    if (effectsOf(folder).length >= effects) child.kill("SIGKILL")
  }, 5)
  await exited
  clearInterval(timer)
}

it.each(["sqlite", "postgres"] as const)(
  `${FUNCTIONS} functions of a killed program continue on %s: no step is lost, and none that was recorded is repeated`,
  { timeout: 240_000 },
  async (kind) => {
    const folder = temporaryFolder()
    mkdirSync(join(folder, "node_modules"))
    symlinkSync(REPO, join(folder, "node_modules/ork"))
    writeFileSync(join(folder, "app.mjs"), APP)
    const database = kind === "sqlite" ? "sqlite:app.db" : await databaseUrl()
    for (let kill = 1; kill <= KILLS; kill++) {
      await killAfter(start(folder, database), folder, (kill * FUNCTIONS * STEPS) / (KILLS + 1))
    }
    const last = start(folder, database)
    let printed = ""
    last.stdout!.on("data", (data: Buffer) => (printed += data.toString()))
    await once(last, "exit")
    expect(printed).toBe(`ended ${FUNCTIONS}\n`)
    const effects = effectsOf(folder)
    const distinct = new Set(effects)
    expect(distinct.size).toBe(FUNCTIONS * STEPS)
    // A kill can repeat only the steps that ran at that moment, at most one of each function in flight.
    expect(effects.length - distinct.size).toBeLessThanOrEqual(KILLS * 20)
  },
)
