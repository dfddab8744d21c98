import { setImmediate as settle } from "node:timers/promises"
import { expect, test } from "vitest"
import { Dispatcher, type DispatcherParts } from "./dispatcher.ts"
import type { EngineOptions } from "./ports.ts"
import type { Change } from "../core/model/change.ts"
import type { AdvanceResult, Claim, TaskClaim } from "../store/contract/store.ts"
import { VirtualClock } from "../../test/sim/clock.ts"

const CLAIM = {
  kind: "task",
  row: 1,
  attemptId: "attempt-1",
  runId: "run-1",
  runSeq: 1,
  wait: null,
} as unknown as TaskClaim

/** Returns a dispatcher whose attempts cannot be launched and whose gate cannot be evaluated. */
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
  const options = { clock, log, executors: new Map(), lanes: [] } as unknown as EngineOptions
  return { dispatcher: new Dispatcher(options, parts), clock, submitted }
}

const NOTHING = { rejected: [], claims: [], gateClaims: [], cancelling: [], stopRequests: [] }

test.each(["claims", "gateClaims"] as const)(
  "%s that could not be handled are in flight until they are released, so that a drain waits for them",
  async (kind) => {
    const { dispatcher, clock, submitted } = setup()
    dispatcher.dispatch({ ...NOTHING, [kind]: [CLAIM] } as unknown as AdvanceResult, { release: false })
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

/** Returns a dispatcher with two slots, whose attempts end when the test says so. */
const withSlots = () => {
  const clock = new VirtualClock()
  const submitted: Change[] = []
  const running = new Map<string, () => void>()
  const attempts = {
    get size() {
      return running.size
    },
    remote: 0,
    has: (id: string) => running.has(id),
    launch: ({ attemptId }: Claim) => new Promise<void>((resolve) => running.set(attemptId, resolve)),
    stopAll: () => {},
    cancel: () => {},
    cancelRun: () => {},
  }
  const waiting = { watches: { size: 0, has: () => false, release: () => {}, releaseRun: () => {} } }
  const parts = { attempts, waiting, submit: (change: Change) => submitted.push(change), attemptEnded: () => {} }
  const options = { clock, executors: new Map(), lanes: [], concurrency: 2 }
  const dispatcher = new Dispatcher(options as unknown as EngineOptions, parts as unknown as DispatcherParts)
  const claim = (...ids: string[]): void => {
    const claims = ids.map((attemptId) => ({ ...CLAIM, attemptId }))
    dispatcher.dispatch({ ...NOTHING, claims } as unknown as AdvanceResult, { release: false })
  }
  const end = async (...ids: string[]): Promise<void> => {
    for (const id of ids) {
      running.get(id)!()
      running.delete(id)
      await settle()
    }
  }
  return { dispatcher, submitted, running, claim, end }
}

test("claims beyond the slots are in flight, and start when slots become free", async () => {
  const { dispatcher, running, claim, end } = withSlots()
  claim("a", "b")
  await end("a", "b")
  expect(dispatcher.claimCapacity(0).maxClaims).toBe(4)
  claim("c", "d", "e", "f")
  expect([...running.keys()]).toEqual(["c", "d"])
  expect([dispatcher.has("e"), dispatcher.idle, dispatcher.claimCapacity(0).maxClaims]).toEqual([true, false, 0])
  await end("d")
  expect([...running.keys()]).toEqual(["c", "e"])
  await end("c", "e", "f")
  expect(dispatcher.idle).toBe(true)
})

test("a stop releases the claims that have not started", () => {
  const { dispatcher, submitted, claim } = withSlots()
  claim("a", "b", "c")
  dispatcher.stopAttempts("shutdown")
  expect(submitted).toMatchObject([{ attemptId: "c", kind: "release" }])
})

test("a cancelled run and a stopped attempt release their claims that have not started", () => {
  const { dispatcher, submitted, claim } = withSlots()
  const dispatch = (advanced: object) =>
    dispatcher.dispatch({ ...NOTHING, ...advanced } as unknown as AdvanceResult, { release: false })
  claim("a", "b", "c", "d")
  dispatch({ claims: [{ ...CLAIM, attemptId: "e", runSeq: 2 }] })
  dispatch({ stopRequests: ["d"] })
  dispatch({ cancelling: [{ runSeq: 2, reason: "cancelled" }] })
  expect(submitted.map((change) => change.kind === "release" && change.attemptId)).toEqual(["d", "e"])
  expect([dispatcher.has("c"), dispatcher.has("d"), dispatcher.has("e")]).toEqual([true, false, false])
})
