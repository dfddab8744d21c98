import { expect, test } from "vitest"
import type { Clock } from "../../core/model/ports.ts"
import type { Node } from "../../core/model/workflow.ts"
import type { TaskClaim } from "../../store/contract/store.ts"
import type { ActivityMinute } from "../../store/contract/stats.ts"
import { MINUTES, Activity } from "./activity.ts"

const START = Date.parse("2026-11-15T06:00:00.000Z")

const setup = () => {
  let now = START
  const timers: { at: number; run: () => void }[] = []
  let reads = 0
  const clock = {
    now: () => now,
    after: (ms: number, run: () => void) => {
      const timer = { at: now + ms, run }
      timers.push(timer)
      return () => void timers.splice(timers.indexOf(timer), 1)
    },
  } as Clock
  const stats = async () => {
    reads += 1
    return { runs: { pending: 0, running: 0 }, ready: [{ queue: "a", count: 3 }, { queue: "b", count: 4 }], running: 2, oldestReadyMs: null, databaseBytes: 0 } // prettier-ignore
  }
  const rows = new Map<number, ActivityMinute>()
  const faults = { unavailable: false }
  const store = {
    stats,
    listActivity: async (since: number) => [...rows.values()].filter(({ minute }) => minute >= since),
    addActivity: async (minutes: ActivityMinute[]) => {
      if (faults.unavailable) throw new Error("unavailable")
      for (const row of minutes) {
        const old = rows.get(row.minute)
        rows.set(row.minute, {
          ...row,
          success: row.success + (old?.success ?? 0),
          failed: row.failed + (old?.failed ?? 0),
          dispatchP50Ms: Math.max(row.dispatchP50Ms ?? 0, old?.dispatchP50Ms ?? 0),
          ready: row.ready ?? old?.ready ?? null,
        })
      }
    },
  }
  const activity = new Activity(store, clock)
  const advance = async (ms: number): Promise<void> => {
    now += ms
    for (const timer of timers.splice(0)) {
      if (timer.at <= now) timer.run()
      else timers.push(timer)
    }
    for (let i = 0; i < 5; i++) await Promise.resolve()
  }
  const end = (state: "success" | "failed", { waitMs = 0, queue = "default" } = {}): void => {
    const run = { createdAt: new Date(now - waitMs).toISOString() }
    const claim = { kind: "task", runId: "r", attempt: 1, path: "", run } as TaskClaim
    const node = { queue, upstream: [] as number[], hook: null } as unknown as Node
    activity.observer.attemptEnded!(claim, node, { state, startedAt: now, finishedAt: now })
    activity.observer.turn!({ changes: 1, claims: 0, ms: 1 })
  }
  return { activity, advance, end, reads: () => reads, timers, faults, restarted: () => new Activity(store, clock) }
}

test("ended attempts are counted per minute, with the dispatch times of first tasks", async () => {
  const { activity, advance, end } = setup()
  end("success", { waitMs: 10 })
  end("success", { waitMs: 30 })
  end("failed", { waitMs: 20 })
  await advance(60_000)
  end("success", { waitMs: 5 })
  expect(await activity.series()).toMatchObject({
    from: START,
    success: [2, 1],
    failed: [1, 0],
    dispatch_p50_ms: [20, 5],
    dispatch_p95_ms: [30, 5],
  })
})

test("queues are read once in a minute with activity, and a quiet minute keeps the values before it", async () => {
  const { activity, advance, end, reads, timers } = setup()
  end("success")
  end("success")
  await advance(59_600)
  expect([reads(), timers.length]).toEqual([1, 0])
  await advance(180_000)
  expect(reads()).toBe(1)
  expect(await activity.series()).toMatchObject({ ready: [7, 7, 7, 7], running: [2, 2, 2, 2] })
})

test("a restarted server shows the activity before its restart", async () => {
  const { activity, advance, end, restarted } = setup()
  end("success", { waitMs: 10 })
  await advance(59_600)
  end("failed")
  await advance(60_000)
  end("success", { waitMs: 7 })
  await activity.stop()
  expect(await restarted().series()).toMatchObject({
    from: START,
    success: [1, 1],
    failed: [1, 0],
    dispatch_p50_ms: [10, 7],
    ready: [7, 7],
  })
})

test("counts that could not be saved are saved later, once", async () => {
  const { activity, advance, end, faults, restarted } = setup()
  faults.unavailable = true
  end("success")
  await advance(59_600)
  faults.unavailable = false
  end("success")
  await advance(60_000)
  await activity.stop()
  expect((await restarted().series()).success).toEqual([2, 0])
  expect((await activity.series()).success).toEqual([2, 0])
})

test("a turn without changes and claims is no activity", () => {
  const { activity, timers } = setup()
  activity.observer.turn!({ changes: 0, claims: 0, ms: 1 })
  expect(timers).toEqual([])
})

test("the rate of a queue covers the last minute", async () => {
  const { activity, advance, end } = setup()
  for (let i = 0; i < 10; i++) end("success", { queue: "mail" })
  expect(activity.endedPerMinute("mail")).toBe(10)
  await advance(90_000)
  expect([activity.endedPerMinute("mail"), activity.endedPerMinute("other")]).toEqual([5, 0])
  await advance(60_000)
  expect(activity.endedPerMinute("mail")).toBe(0)
})

test("one day is kept", async () => {
  const { activity, advance, end } = setup()
  for (let i = 0; i < MINUTES + 30; i++) {
    end("success")
    await advance(60_000)
  }
  expect((await activity.series()).success).toHaveLength(MINUTES)
})
