// What programs keep of the past, without a server.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished, vi } from "vitest"
import type { Clock } from "../core/model/ports.ts"
import { inlineEvaluator } from "../engine/gate/evaluator.ts"
import { systemClock, systemRandom } from "../engine/system.ts"
import { FileObjectStore } from "../objects/file/file.ts"
import { openSqlite } from "../store/sqlite/sqlite.ts"
import { type Definition, task, workflow } from "./definitions.ts"
import { openParts } from "./open.ts"
import { Ork, type OrkOptions } from "./ork.ts"

const double = task("double", {}, (n) => 2 * Number(n))
const flow = workflow("flow", {}, async (_, step) => await step.run("one", () => 1))

const temporaryFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "ork-retention-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const HOUR_MS = 3_600_000

/** Opens programs on one file. Their clock goes on by days when the test says so, and holds back what is due hourly. */
const openPrograms = () => {
  const folder = temporaryFolder()
  let skippedMs = 0
  const hourly: (() => void)[] = []
  const clock: Clock = {
    now: () => systemClock.now() + skippedMs,
    monotonic: () => systemClock.monotonic(),
    after(ms, fire) {
      if (ms !== HOUR_MS) return systemClock.after(ms, fire)
      hourly.push(fire)
      return () => {}
    },
  }
  const warn = vi.fn<(fields: object, message: string) => void>()
  const open = async (run: readonly Definition[]) => {
    const store = await openSqlite({ path: join(folder, "app.db"), clock, random: systemRandom, isDead: () => false })
    await store.migrate()
    const name = `program ${hourly.length}`
    const parts = {
      store,
      clock,
      evaluator: inlineEvaluator,
      random: systemRandom,
      process: name,
      name,
      holder: "run",
    } as const
    const retention = { retentionDays: 1, retentionRuns: 0 }
    const objects = new FileObjectStore(join(folder, "objects"))
    const log = { info: () => {}, warn, error: warn }
    const ork = await Ork.start({ ...parts, objects, log, retention, concurrency: 10, version: "test" }, run)
    onTestFinished(() => ork.stop())
    return { ork, store }
  }
  return {
    open,
    hourly,
    warn,
    /** Lets time pass, and does what is due. */
    pass(ms: number): void {
      skippedMs += ms
      for (const fire of hourly.splice(0)) fire()
    },
  }
}

it("several programs on one file remove old jobs, runs and events once an hour", async () => {
  const { open, hourly, pass, warn } = openPrograms()
  const { ork, store } = await open([double, flow])
  await open([double, flow])
  expect(hourly).toHaveLength(2)
  const { cursor } = await store.readEvents({ after: null, limit: 1 })
  const [job, run] = [await ork.enqueue(double, 2), await ork.enqueue(flow, {})]
  expect([await job.result(), await run.result()]).toEqual([4, 1])
  const firstEvent = async () => (await store.readEvents({ after: cursor, limit: 1 })).events[0]
  pass(HOUR_MS / 2)
  await vi.waitFor(() => expect(hourly).toHaveLength(2))
  expect([await ork.get(job.id), await ork.get(run.id), await firstEvent()]).toEqual([
    expect.objectContaining({ status: "completed" }),
    expect.objectContaining({ status: "success" }),
    expect.objectContaining({ jobId: job.id }),
  ])
  pass(48 * HOUR_MS)
  await vi.waitFor(() => expect(hourly).toHaveLength(2))
  expect([await ork.get(job.id), await ork.get(run.id)]).toEqual([null, null])
  expect(await firstEvent()).not.toMatchObject({ jobId: job.id })
  expect(warn).not.toHaveBeenCalled()
})

it("a program that runs nothing removes nothing", async () => {
  const { open, hourly } = openPrograms()
  await open([])
  expect(hourly).toEqual([])
})

it("Ork.open keeps everything unless it is told otherwise, and rejects other limits", async () => {
  const folder = temporaryFolder()
  const options = { database: `sqlite:${join(folder, "app.db")}`, objects: `file:${folder}`, run: [] }
  const retentionOf = async (given: OrkOptions): Promise<unknown> => {
    const { retention, store } = await openParts(given)
    await store.close()
    return retention
  }
  expect(await retentionOf(options)).toEqual({ retentionDays: 0, retentionRuns: 0 })
  expect(await retentionOf({ ...options, retention: { days: 30, runs: 100 } })).toEqual({
    retentionDays: 30,
    retentionRuns: 100,
  })
  await expect(Ork.open({ ...options, retention: { days: -1 } })).rejects.toThrow("retention.days is -1, but must be")
})
