import { expect, it } from "vitest"
import type { Listener } from "../../engine/loop/events.ts"
import type { StoreEvent } from "../../store/contract/store.ts"
import { StoppedError } from "../errors.ts"
import { Results } from "./results.ts"

const AT = "2026-01-01T00:00:00.000Z"

/** Results of a process whose jobs never end in the store, with a clock that stands still. */
const setup = ({ singleProcess = false } = {}) => {
  const listeners: Listener[] = []
  const delays: number[] = []
  const clock = {
    now: () => 0,
    monotonic: () => 0,
    after: (ms: number) => {
      delays.push(ms)
      return () => {}
    },
  }
  const engine = {
    onEvent: (listener: Listener) => {
      listeners.push(listener)
      return () => {}
    },
  }
  const reads: string[] = []
  const results = new Results({ store: { onWake: () => {} }, clock, singleProcess }, engine)
  return {
    results,
    reads,
    delays,
    wait: (id: string, maySkipFirstRead?: () => boolean) =>
      results.wait<never>(
        id,
        async () => {
          reads.push(id)
          return null
        },
        { maySkipFirstRead },
      ),
    emit: (status: "RUNNING" | "COMPLETED" | "FAILED", result?: Parameters<Listener>[1]) => {
      const event = { type: "job", runId: "" as never, jobId: "a", status, at: AT } satisfies StoreEvent
      for (const listener of listeners) listener(event, result)
    },
  }
}

it("a job is read when it ends, not when it starts, and not when its result is announced", async () => {
  const { wait, emit, reads } = setup()
  const waiting = wait("a")
  await Promise.resolve()
  emit("RUNNING")
  expect(reads).toEqual(["a"])
  emit("FAILED")
  expect(reads).toEqual(["a", "a"])
  const result = { task: null, output: { inline: 42 } }
  emit("COMPLETED", result)
  expect(await waiting).toEqual({ result })
  expect(reads).toEqual(["a", "a"])
})

it("a job that is known to be unfinished is not read first, but polled", () => {
  const { results, wait, reads, delays } = setup()
  void wait("a", results.maySkipFirstRead())
  expect([reads, delays]).toEqual([[], [10]])
})

it("a job is read at once when something has ended, or was cancelled, since it was known to be unfinished", () => {
  const { results, wait, emit, reads } = setup()
  const beforeEnd = results.maySkipFirstRead()
  emit("COMPLETED", { task: null, output: { inline: 42 } })
  void wait("a", beforeEnd)
  const beforeCancel = results.maySkipFirstRead()
  results.recheck("b")
  void wait("b", beforeCancel)
  expect(reads).toEqual(["a", "b"])
})

it("a job is read at once where nobody polls", () => {
  const { results, wait, reads } = setup({ singleProcess: true })
  void wait("a", results.maySkipFirstRead())
  expect(reads).toEqual(["a"])
})

it("many who wait poll seldom", () => {
  const { wait, delays } = setup()
  for (let i = 0; i < 1000; i++) void wait(String(i))
  expect(delays[0]).toBe(10)
  expect(delays.at(-1)).toBeGreaterThanOrEqual(999)
})

it("many who wait poll at the same instants", () => {
  const { wait, delays } = setup()
  for (let i = 0; i < 1000; i++) void wait(String(i))
  expect(new Set(delays).size).toBeLessThanOrEqual(100)
})

it("a stop ends all waiting, and what begins to wait later", async () => {
  const { results, wait } = setup()
  const waiting = wait("a")
  results.stop()
  await expect(waiting).rejects.toThrow(StoppedError)
  await expect(wait("a")).rejects.toThrow(StoppedError)
})
