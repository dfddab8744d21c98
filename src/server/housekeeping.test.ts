import { pino } from "pino"
import { expect, test } from "vitest"
import { Housekeeping } from "./housekeeping.ts"
import type { Clock } from "../core/model/ports.ts"
import type { ObjectStore } from "../objects/objects.ts"
import type { ServerStore } from "../store/contract/server-store.ts"

const HOUR = 3_600_000

const setup = (settings: { retentionDays: number; retentionRuns: number }, trimmed: (number | Error)[] = []) => {
  const calls: [string, object][] = []
  const timers: { ms: number; fn: () => void }[] = []
  const clock: Clock = {
    now: () => 0,
    after(ms, fn) {
      const timer = { ms, fn }
      timers.push(timer)
      return () => void timers.splice(timers.indexOf(timer), 1)
    },
  }
  const store = {
    bundlesInUse: async () => [],
    expiredRuns: async (query: object) => {
      calls.push(["expired", query])
      return []
    },
    trimEvents: async (query: object) => {
      calls.push(["trim", query])
      const answer = trimmed.shift() ?? 0
      if (answer instanceof Error) throw answer
      return answer
    },
  } as unknown as ServerStore
  const objects = { list: async () => [] } as unknown as ObjectStore
  const log = pino({ level: "silent" })
  const keeper = new Housekeeping({ ...settings, store, objects, dataDir: "", clock, log })
  keeper.start()
  return {
    calls,
    timers,
    keeper,
    /** Lets the hour pass and the work be done. */
    async hour() {
      const [timer] = timers.splice(0)
      expect(timer!.ms).toBe(HOUR)
      timer!.fn()
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

test("once an hour a server removes what its retention names, and trims events older than an hour", async () => {
  const { calls, hour } = setup({ retentionDays: 30, retentionRuns: 100 })
  expect(calls).toEqual([])
  await hour()
  expect(calls).toEqual([
    ["expired", { olderThanMs: 30 * 24 * HOUR, keep: 100, limit: 100 }],
    ["trim", { olderThanMs: HOUR, limit: 500 }],
  ])
  await hour()
  expect(calls).toHaveLength(4)
})

test("without a retention no run is removed, and events are trimmed all the same, batch by batch", async () => {
  const { calls, hour } = setup({ retentionDays: 0, retentionRuns: 0 }, [500, 500, 3])
  await hour()
  expect(calls.map(([name]) => name)).toEqual(["trim", "trim", "trim"])
})

test("a store that is away is tried again in an hour", async () => {
  const { calls, hour } = setup({ retentionDays: 0, retentionRuns: 0 }, [new Error("away")])
  await hour()
  await hour()
  expect(calls).toHaveLength(2)
})

test("one that is stopped does nothing more", async () => {
  const { timers, keeper } = setup({ retentionDays: 1, retentionRuns: 0 })
  await keeper.stop()
  expect(timers).toEqual([])
})
