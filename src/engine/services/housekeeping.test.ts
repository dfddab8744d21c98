import { pino } from "pino"
import { expect, test } from "vitest"
import { Housekeeping } from "./housekeeping.ts"
import { timerClock } from "./testing.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"

const HOUR = 3_600_000

const setup = (settings: { retentionDays: number; retentionRuns: number }, trimmed: (number | Error)[] = []) => {
  const calls: [string, object][] = []
  const { clock, timers } = timerClock()
  const store = {
    bundlesInUse: async () => [],
    trimCache: async () => 0,
    trimLimits: async (limit: number) => {
      calls.push(["trim limits", { limit }])
      return 0
    },
    cachedKeysInUse: async () => [],
    currentTime: async () => 0,
    removableRuns: async (query: object) => {
      calls.push(["expired", query])
      return []
    },
    removableJobs: async (query: object) => {
      calls.push(["expired jobs", query])
      return calls.filter(([name]) => name === "delete job").length === 0 ? ["j1"] : []
    },
    deleteJob: async (id: string) => {
      calls.push(["delete job", { id }])
      return null
    },
    trimAudit: async (query: object) => {
      calls.push(["trim audit", query])
      return 0
    },
    trimEvents: async (query: object) => {
      calls.push(["trim", query])
      const result = trimmed.shift() ?? 0
      if (result instanceof Error) throw result
      return result
    },
  } as unknown as ServerStore
  const objects = {
    list: async () => [],
    deletePrefix: async (prefix: string) => void calls.push(["delete objects", { prefix }]),
  } as unknown as ObjectStore
  const log = pino({ level: "silent" })
  const housekeeping = new Housekeeping({ ...settings, store, objects, dataDir: "", clock, log, wake: () => {} })
  housekeeping.start()
  return {
    calls,
    timers,
    housekeeping,
    /** Lets an hour pass and waits for the work. */
    async hour() {
      const [timer] = timers.splice(0)
      expect(timer!.ms).toBe(HOUR)
      timer!.fn()
      // The next hour begins when the work is done.
      while (timers.length === 0) await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

test("every hour, runs, jobs and audit entries past their retention are removed and events older than an hour are trimmed", async () => {
  const { calls, hour } = setup({ retentionDays: 30, retentionRuns: 100 })
  expect(calls).toEqual([])
  await hour()
  expect(calls).toEqual([
    ["expired", { olderThanMs: 30 * 24 * HOUR, keep: 100, limit: 100 }],
    ["trim limits", { limit: 10_000 }],
    ["trim", { olderThanMs: HOUR, limit: 500 }],
    ["expired jobs", { olderThanMs: 30 * 24 * HOUR, limit: 100 }],
    ["delete job", { id: "j1" }],
    ["delete objects", { prefix: "jobs/j1/" }],
    ["expired jobs", { olderThanMs: 30 * 24 * HOUR, limit: 100 }],
    ["trim audit", { olderThanMs: 30 * 24 * HOUR, limit: 500 }],
  ])
  await hour()
  expect(calls.filter(([name]) => name === "trim")).toHaveLength(2)
})

test("without a retention no run is removed, but events are trimmed, batch by batch", async () => {
  const { calls, hour } = setup({ retentionDays: 0, retentionRuns: 0 }, [500, 500, 3])
  await hour()
  expect(calls.map(([name]) => name)).toEqual(["trim limits", "trim", "trim", "trim"])
})

test("a failure is repeated after an hour", async () => {
  const { calls, hour } = setup({ retentionDays: 0, retentionRuns: 0 }, [new Error("unavailable")])
  await hour()
  await hour()
  expect(calls.filter(([name]) => name === "trim")).toHaveLength(2)
})

test("nothing is done after a stop", async () => {
  const { timers, housekeeping } = setup({ retentionDays: 1, retentionRuns: 0 })
  await housekeeping.stop()
  expect(timers).toEqual([])
})
