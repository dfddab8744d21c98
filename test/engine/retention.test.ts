// Retention and retries of the same runs at about the same moment.

import { expect, it, onTestFinished } from "vitest"
import { Housekeeping } from "../../src/engine/services/housekeeping.ts"
import { removeOldRuns } from "../../src/engine/services/retention.ts"
import { Conflict, NotFound } from "../../src/store/contract/errors.ts"
import { Rng } from "../sim/rng.ts"
import { fail, setup } from "./setup.ts"

const ROUNDS = 40
const TOGETHER = 5
const SPAN_MS = 6
/** Longer than a retried run takes. */
const RETENTION_MS = 60_000
const HOUR_MS = 3_600_000
const LARGE = "x".repeat(100_000)

it("a run that is retried while it expires is removed with all that it has, or runs to its end with the outputs that it kept", async () => {
  const rng = new Rng("retention")
  const { engine, store, objects, folder, trigger, until, pass, clock, task } = await setup({
    large: () => LARGE,
    flaky: ({ attempt, input }) => (attempt === 1 ? fail() : (input as { large: string }).large.length),
  })
  const text = "name: race\ntasks: { large: { command: x }, flaky: { command: x, depends_on: [large] } }"
  const later = <T>(act: () => Promise<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      clock.after(rng.int(0, SPAN_MS), () => void act().then(resolve, reject))
    })
  const retried = async (runId: Awaited<ReturnType<typeof trigger>>): Promise<boolean> =>
    await engine.retry(runId, {}).then(
      () => true,
      (error: unknown) => {
        if (error instanceof Conflict || error instanceof NotFound) return false
        throw error
      },
    )
  const outcomes = { retried: 0, removed: 0 }
  for (let round = 0; round < ROUNDS; round++) {
    const ids = await until(Promise.all(Array.from({ length: TOGETHER }, () => trigger(text))))
    await until(Promise.all(ids.map((id) => engine.waitForRun(id))))
    await pass(RETENTION_MS + 1)
    const expire = () => removeOldRuns({ store, objects, dataDir: folder }, { olderThanMs: RETENTION_MS })
    // Now and then, the runs are removed before anybody retries them.
    if (round % 4 === 0) await until(expire())
    const [, ...accepted] = await until(Promise.all([later(expire), ...ids.map((id) => later(() => retried(id)))]))
    for (const [i, id] of ids.entries()) {
      const run = accepted[i] ? await until(engine.waitForRun(id)) : await store.getRun(id)
      outcomes[accepted[i] ? "retried" : "removed"] += 1
      if (!accepted[i]) {
        expect([run, await objects.list(`runs/${id}/`, { limit: 1 })]).toEqual([null, []])
        continue
      }
      expect([run?.status, (await task(id, "flaky")).output]).toEqual(["success", { inline: LARGE.length }])
    }
  }
  expect(Math.min(...Object.values(outcomes))).toBeGreaterThan(10)
})

it("a run that waits for the success of one that retention removes starts at once", async () => {
  let fails = true
  const { engine, store, objects, folder, trigger, deploy, ended, pass, clock } = await setup({ a: () => (fails ? fail() : 1) })
  const text = "name: past\ntasks: { a: { command: x } }"
  const failed = await trigger(text)
  expect((await ended(failed)).status).toBe("failed")
  fails = false
  const { version } = await deploy(text)
  const { run } = await engine.trigger({
    workflowId: version.workflowId,
    versionId: version.versionId,
    trigger: "schedule",
    params: {},
    priority: null,
    logicalDate: null,
    idempotencyKey: null,
    workingDir: folder,
    previousRun: failed,
  })
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  const limits = { retentionDays: 1, retentionRuns: 0 }
  const wake = (): void => engine.wake()
  const housekeeping = new Housekeeping({ ...limits, store, objects, dataDir: folder, clock, log, wake })
  housekeeping.start()
  onTestFinished(() => housekeeping.stop())
  await pass(23 * HOUR_MS)
  expect((await store.getRun(run.id))!.status).toBe("pending")
  await pass(3 * HOUR_MS)
  expect([await store.getRun(failed), (await store.getRun(run.id))!.status]).toEqual([null, "success"])
})

it("the run of a sub-workflow stays until its parent has read its outputs", async () => {
  const { engine, store, objects, folder, trigger, deploy, ended, pass, task } = await setup({
    a: async (_, { sleep }) => {
      await sleep(1000)
      return 7
    },
  })
  await deploy("name: child\ntasks: { a: { command: x } }")
  const parent = await trigger("name: parent\ntasks: { sub: { executor: workflow, workflow: child } }")
  await pass(500)
  await engine.setPaused(parent, true)
  await pass(HOUR_MS)
  const [child] = await store.listRuns({ workflow: "child", limit: 2 })
  expect(child!.status).toBe("success")
  const expire = () => removeOldRuns({ store, objects, dataDir: folder }, { olderThanMs: RETENTION_MS, keep: 0 })
  expect(await expire()).toEqual({ removed: 0, problems: new Map() })
  await engine.setPaused(parent, false)
  expect((await ended(parent)).status).toBe("success")
  expect((await task(parent, "sub")).output).toEqual({ inline: { a: 7 } })
  await pass(RETENTION_MS + 1)
  expect(await expire()).toEqual({ removed: 2, problems: new Map() })
})
