import { expect, test } from "vitest"
import { NOT_SUPPORTED, PushWatch } from "./push-watch.ts"
import type { Clock } from "../../core/model/ports.ts"

/** Returns a clock that advances on request, timer by timer. */
const manualClock = (): Clock & { pass(ms: number): Promise<void>; readonly timers: number } => {
  let now = 1_000_000
  const timers = new Set<{ at: number; fn: () => void }>()
  return {
    now: () => now,
    monotonic: () => now,
    get timers() {
      return timers.size
    },
    after(ms, fn) {
      const timer = { at: now + ms, fn }
      timers.add(timer)
      return () => timers.delete(timer)
    },
    async pass(ms) {
      const until = now + ms
      for (;;) {
        const due = [...timers].filter(({ at }) => at <= until).toSorted((a, b) => a.at - b.at)[0]
        if (due === undefined) break
        timers.delete(due)
        now = due.at
        due.fn()
        await new Promise((resolve) => setImmediate(resolve))
      }
      now = until
    },
  }
}

const setup = (replies: { [worker: string]: string[] | typeof NOT_SUPPORTED | null }) => {
  const clock = manualClock()
  const asked: [string, string[]][] = []
  const lost: { [token: string]: string } = {}
  const ask = (worker: string, tokens: string[]): Promise<string[] | typeof NOT_SUPPORTED | null> => {
    asked.push([worker, tokens])
    return Promise.resolve(replies[worker]!)
  }
  const watch = new PushWatch({ clock, leaseMs: 15_000, ask })
  const add = (worker: string, token: string) => watch.add(worker, token, (reason) => (lost[token] = reason))
  return { clock, asked, lost, add }
}

test("each worker with tasks is asked every few seconds, all on one timer", async () => {
  const { clock, asked, lost, add } = setup({ a: [], b: [] })
  const ends = [add("a", "1"), add("a", "2"), add("b", "3")]
  expect(clock.timers).toBe(1)
  await clock.pass(3000)
  expect(asked).toEqual([
    ["a", ["1", "2"]],
    ["b", ["3"]],
  ])
  await clock.pass(57_000)
  expect(asked).toHaveLength(40)
  expect(lost).toEqual({})
  for (const end of ends) end()
  expect(clock.timers, "no tasks, no timer").toBe(0)
})

test("only the tasks of a worker that does not reply for a lease are lost", async () => {
  const { clock, lost, add } = setup({ dead: null, well: [] })
  add("dead", "1")
  add("well", "2")
  await clock.pass(14_999)
  expect(lost).toEqual({})
  await clock.pass(1)
  expect(lost).toEqual({ 1: "lost: the worker dead has not answered for 15 s" })
  await clock.pass(60_000)
  expect(Object.keys(lost)).toEqual(["1"])
})

test("a task that its worker no longer knows is lost at the next check", async () => {
  const { clock, lost, add } = setup({ w: ["2", "gone meanwhile"] })
  add("w", "1")
  add("w", "2")
  await clock.pass(3000)
  expect(lost).toEqual({ 2: expect.stringContaining("no longer has the task") })
})

test("a worker that cannot be asked is asked once, and its tasks are not lost", async () => {
  const { clock, asked, lost, add } = setup({ a: NOT_SUPPORTED })
  const end = add("a", "1")
  await clock.pass(600_000)
  expect([asked.length, lost, clock.timers]).toEqual([1, {}, 0])
  end()
})
