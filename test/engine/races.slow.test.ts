// A cancel, a retry, the timeout and the end of one task at about the same moment, many times.

import { expect, it } from "vitest"
import { setup } from "./setup.ts"
import { Conflict } from "../../src/store/contract/errors.ts"
import { Rng } from "../sim/rng.ts"

const ROUNDS = 10_000
const TOGETHER = 50
const TIMEOUT_MS = 20

it("a cancel, a retry, a timeout and an end that race on one task leave one outcome, of an attempt that ran", async () => {
  const rng = new Rng("races")
  const live = new Set<string>()
  const finished = new Map<string, Set<number>>()
  const twice: string[] = []
  const { engine, trigger, until, task, clock } = await setup({
    a: async ({ runId, attempt }, { sleep }) => {
      if (live.has(runId)) twice.push(runId)
      live.add(runId)
      try {
        await sleep(rng.int(0, 2 * TIMEOUT_MS))
        finished.set(runId, (finished.get(runId) ?? new Set()).add(attempt))
        return attempt
      } finally {
        live.delete(runId)
      }
    },
  })
  const text = `name: race\ntasks: { a: { command: x, timeout: ${TIMEOUT_MS}ms, retries: 1, retry: { base_delay: 1ms } } }`
  const ignoreConflict = (error: unknown): void => {
    if (!(error instanceof Conflict)) throw error
  }
  const later = (act: () => Promise<void>): Promise<void> =>
    new Promise((resolve, reject) => {
      clock.after(rng.int(0, 3 * TIMEOUT_MS), () => void act().catch(ignoreConflict).then(resolve, reject))
    })
  const outcomes: Record<string, number> = {}
  const race = async (): Promise<void> => {
    const runId = await trigger(text)
    await Promise.all([
      later(() => engine.cancel(runId)),
      later(() => engine.retry(runId, {})),
      later(() => engine.retry(runId, {})),
    ])
    const { status } = await engine.waitForRun(runId)
    outcomes[status] = (outcomes[status] ?? 0) + 1
    const { status: taskStatus, output } = await task(runId, "a")
    // What ended before the cancel reached it keeps its outcome.
    expect(status === "cancelled" ? [status, "success", "failed"] : [status]).toContain(taskStatus)
    if (taskStatus === "success") expect(finished.get(runId)).toContain((output as { inline: number }).inline)
  }
  for (let round = 0; round < ROUNDS; round += TOGETHER) {
    await until(Promise.all(Array.from({ length: TOGETHER }, race)))
  }
  expect(twice).toEqual([])
  expect(Object.values(outcomes).reduce((sum, n) => sum + n, 0)).toBe(ROUNDS)
  expect(Object.keys(outcomes).toSorted()).toEqual(["cancelled", "failed", "success"])
}, 600_000)
