import { expect, test } from "vitest"
import { PushWatch } from "./push-watch.ts"
import type { Clock } from "../core/model/ports.ts"

/** A clock that goes on when it is told to, timer by timer. */
const manualClock = (): Clock & { pass(ms: number): Promise<void>; readonly timers: number } => {
  let now = 1_000_000
  const timers = new Set<{ at: number; fn: () => void }>()
  return {
    now: () => now,
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

const setup = (answers: { [worker: string]: string[] | null }) => {
  const clock = manualClock()
  const asked: [string, string[]][] = []
  const told: { [token: string]: string } = {}
  const ask = (worker: string, tokens: string[]): Promise<string[] | null> => {
    asked.push([worker, tokens])
    return Promise.resolve(answers[worker]!)
  }
  const watch = new PushWatch({ clock, leaseMs: 15_000, ask })
  const add = (worker: string, token: string) => watch.add(worker, token, (why) => (told[token] = why))
  return { clock, asked, told, add }
}

test("each worker that holds something is asked every few seconds, all on one timer", async () => {
  const { clock, asked, told, add } = setup({ a: [], b: [] })
  const ends = [add("a", "1"), add("a", "2"), add("b", "3")]
  expect(clock.timers).toBe(1)
  await clock.pass(3000)
  expect(asked).toEqual([
    ["a", ["1", "2"]],
    ["b", ["3"]],
  ])
  await clock.pass(57_000)
  expect(asked).toHaveLength(40)
  expect(told).toEqual({})
  for (const end of ends) end()
  expect(clock.timers, "nothing held, nothing asked").toBe(0)
})

test("what a worker does not answer for in a lease is lost, and only that", async () => {
  const { clock, told, add } = setup({ dead: null, well: [] })
  add("dead", "1")
  add("well", "2")
  await clock.pass(14_999)
  expect(told).toEqual({})
  await clock.pass(1)
  expect(told).toEqual({ 1: "lost: the worker dead has not answered for 15 s" })
  await clock.pass(60_000)
  expect(Object.keys(told)).toEqual(["1"])
})

test("what a worker does not know any more is lost at the next question", async () => {
  const { clock, told, add } = setup({ w: ["2", "gone meanwhile"] })
  add("w", "1")
  add("w", "2")
  await clock.pass(3000)
  expect(told).toEqual({ 2: expect.stringContaining("does not have it any more") })
})
