import { setImmediate as settle } from "node:timers/promises"
import { expect, test } from "vitest"
import { Dispatcher, type DispatcherParts } from "./dispatcher.ts"
import type { EngineOptions } from "./ports.ts"
import type { Change } from "../core/model/change.ts"
import type { Advanced, TaskClaim } from "../store/contract/store.ts"
import { VirtualClock } from "../../test/sim/clock.ts"

const CLAIM = {
  kind: "task",
  row: 1,
  attemptId: "attempt-1",
  runId: "run-1",
  runSeq: 1,
  waitingOn: null,
} as unknown as TaskClaim

/** A dispatcher whose attempts cannot be launched and whose gate cannot be evaluated. */
const setup = () => {
  const clock = new VirtualClock()
  const submitted: Change[] = []
  const reject = (): Promise<never> => Promise.reject(new Error("no"))
  const parts = {
    attempts: { size: 0, remote: 0, has: () => false, launch: reject },
    gate: { evaluate: reject },
    waiting: { watches: { size: 0, has: () => false } },
    submit: (change: Change) => submitted.push(change),
    attemptEnded: () => {},
    resumed: () => {},
  } as unknown as DispatcherParts
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  const options = { clock, log, executors: new Map(), lanes: [], privateRun: null } as unknown as EngineOptions
  return { dispatcher: new Dispatcher(options, parts), clock, submitted }
}

const NOTHING = { rejected: [], claims: [], gates: [], cancelling: [], stopRequests: [] }

test.each(["claims", "gates"] as const)(
  "%s that could not be handled are in flight until they are released, so that a drain waits for them",
  async (kind) => {
    const { dispatcher, clock, submitted } = setup()
    dispatcher.dispatch({ ...NOTHING, [kind]: [CLAIM] } as unknown as Advanced, { release: false })
    await settle()
    expect(submitted).toEqual([])
    expect(dispatcher.idle).toBe(false)
    expect(dispatcher.has(CLAIM.attemptId)).toBe(true)
    clock.step()
    expect(submitted).toMatchObject([{ row: 1, attemptId: "attempt-1", kind: "release" }])
    expect(dispatcher.idle).toBe(true)
    expect(dispatcher.has(CLAIM.attemptId)).toBe(false)
  },
)
