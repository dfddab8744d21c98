// In any order of commits, reads and wakes, a stream gets every event after its id once and in order.

import fc from "fast-check"
import { expect, test } from "vitest"
import { systemClock } from "../../engine/system.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { EventLog, LoggedEvent } from "../../store/contract/event-log.ts"
import { compareEventIds } from "../../core/model/event-id.ts"
import { EventFeed, type Frame } from "./event-feed.ts"

const RUNS = ["run-a", "run-b"] as RunId[]

/** A log whose reads see the state at their begin and resolve when the test resolves them. */
class SlowLog implements EventLog {
  readonly events: LoggedEvent[] = []
  readonly pending: (() => void)[] = []
  reads = 0
  #batch = 0

  commit(runs: readonly number[]): void {
    this.#batch += 1
    runs.forEach((run, place) =>
      this.events.push({ type: "run", runId: RUNS[run]!, status: "running", at: "", id: `${this.#batch}.${place}` }),
    )
  }

  async readEvents({ after, runId, limit }: Parameters<EventLog["readEvents"]>[0]) {
    this.reads += 1
    const end = this.events.at(-1)?.id ?? "0.0"
    const newer = after === null ? [] : this.events.filter((event) => compareEventIds(event.id, after) > 0)
    const found = newer.filter((event) => runId === undefined || event.runId === runId).slice(0, Math.min(limit, 3))
    await new Promise<void>((resolve) => void this.pending.push(resolve))
    return { events: found, cursor: found.at(-1)?.id ?? end, gap: false }
  }

  async trimEvents(): Promise<number> {
    return 0
  }
}

const flushMicrotasks = async (): Promise<void> => {
  for (let i = 0; i < 10; i++) await Promise.resolve()
}

const follow = (feed: EventFeed, runId: RunId | null, after: string | null) => {
  const received: string[] = []
  const closed = new AbortController()
  const collect = (frames: readonly Frame[]): void => void received.push(...frames.map((frame) => frame.event.id))
  let gaps = 0
  void feed.follow({
    runId,
    after,
    signal: closed.signal,
    catchUp: async (frames) => {
      collect(frames)
      await Promise.resolve()
    },
    deliver: collect,
    onGap: () => void (gaps += 1),
  })
  return { received, close: () => closed.abort(), gaps: () => gaps }
}

type Step = { commit: number[] } | { resolve: number } | { wake: true }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ commit: fc.array(fc.integer({ min: 0, max: 1 }), { minLength: 1, maxLength: 4 }) }) },
  { weight: 6, arbitrary: fc.record({ resolve: fc.nat(5) }) },
  { weight: 3, arbitrary: fc.constant({ wake: true as const }) },
)

test("a stream that catches up and goes live neither loses nor repeats an event", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60 }),
      fc.array(fc.integer({ min: 0, max: 1 }), { maxLength: 8 }),
      fc.option(fc.nat(7), { nil: null, freq: 8 }),
      fc.constantFrom(null, RUNS[0]!, RUNS[0]!),
      fc.nat(4),
      async (steps, earlier, place, runId, joinAt) => {
        const log = new SlowLog()
        const feed = new EventFeed(log, systemClock, () => undefined)
        for (const run of earlier) log.commit([run])
        // Another subscriber is live all the time, so that the feed's cursor advances while the stream catches up.
        const other = follow(feed, null, null)
        await flushMicrotasks()
        log.pending.shift()?.()
        await flushMicrotasks()
        const after = place === null ? null : (log.events[place]?.id ?? "0.0")
        let stream: ReturnType<typeof follow> | null = null
        let committedBefore = 0
        const join = async (): Promise<void> => {
          committedBefore = log.events.length
          stream = follow(feed, runId, after)
          await flushMicrotasks()
        }
        for (const [i, each] of steps.entries()) {
          if (i === joinAt) await join()
          if ("commit" in each) {
            log.commit(each.commit)
            feed.wake()
          } else if ("resolve" in each) log.pending.splice(each.resolve % Math.max(1, log.pending.length), 1)[0]?.()
          else feed.wake()
          await flushMicrotasks()
        }
        if (stream === null) await join()
        feed.wake()
        for (let i = 0; i < 500 && (i < 5 || log.pending.length > 0); i++) {
          log.pending.shift()?.()
          await flushMicrotasks()
        }
        const matching = (events: readonly LoggedEvent[]): string[] =>
          events.filter((event) => runId === null || event.runId === runId).map((event) => event.id)
        const { received } = stream!
        if (after === null) {
          // A stream without an id begins at the latest with the first commit after it was opened, and has no gap.
          const all = matching(log.events)
          expect(all.slice(all.length - received.length)).toEqual(received)
          expect(received.length).toBeGreaterThanOrEqual(matching(log.events.slice(committedBefore)).length)
        } else expect(received).toEqual(matching(log.events.filter((event) => compareEventIds(event.id, after) > 0)))
        expect(other.received).toEqual(log.events.slice(earlier.length).map((event) => event.id))
        stream!.close()
        other.close()
      },
    ),
    { numRuns: 3000 },
  )
})

test("a feed without subscribers reads nothing", async () => {
  const log = new SlowLog()
  const feed = new EventFeed(log, systemClock, () => undefined)
  feed.wake()
  await flushMicrotasks()
  expect(log.reads).toBe(0)
  const stream = follow(feed, null, null)
  await flushMicrotasks()
  log.pending.shift()!()
  await flushMicrotasks()
  stream.close()
  const reads = log.reads
  feed.wake()
  await flushMicrotasks()
  expect(log.reads).toBe(reads)
})

test("one read serves all streams", async () => {
  const log = new SlowLog()
  const feed = new EventFeed(log, systemClock, () => undefined)
  const streams = Array.from({ length: 50 }, () => follow(feed, null, null))
  await flushMicrotasks()
  log.pending.shift()!()
  await flushMicrotasks()
  const before = log.reads
  log.commit([0])
  feed.wake()
  feed.wake()
  await flushMicrotasks()
  log.pending.shift()!()
  await flushMicrotasks()
  for (const { received } of streams) expect(received).toEqual(["1.0"])
  expect(log.reads - before).toBeLessThanOrEqual(2)
  for (const each of streams) each.close()
})

test("an id beyond the end of the log is reported as a gap, and new events are delivered", async () => {
  const log = new SlowLog()
  const feed = new EventFeed(log, systemClock, () => undefined)
  log.commit([0])
  const stream = follow(feed, null, "99.0")
  for (let i = 0; i < 5; i++) {
    await flushMicrotasks()
    log.pending.shift()?.()
  }
  await flushMicrotasks()
  expect(stream.gaps()).toBe(1)
  log.commit([1])
  feed.wake()
  for (let i = 0; i < 5; i++) {
    await flushMicrotasks()
    log.pending.shift()?.()
  }
  await flushMicrotasks()
  expect(stream.received).toEqual(["2.0"])
  stream.close()
})

test("polling finds a commit of another process that was not announced", async () => {
  const log = new SlowLog()
  const timers = new Set<() => void>()
  const clock = {
    now: () => 0,
    monotonic: () => 0,
    after: (_ms: number, fn: () => void) => (timers.add(fn), () => timers.delete(fn)),
  }
  const feed = new EventFeed(log, clock, () => undefined)
  const stream = follow(feed, null, null)
  await flushMicrotasks()
  log.pending.shift()!()
  await flushMicrotasks()
  log.commit([0])
  const due = [...timers]
  for (const fire of due) fire()
  await flushMicrotasks()
  log.pending.shift()!()
  await flushMicrotasks()
  expect(stream.received).toEqual(["1.0"])
  log.pending.shift()?.()
  stream.close()
  expect(timers.size).toBe(0)
})

test("a feed resumes at its cursor after a failed read", async () => {
  const log = new SlowLog()
  let broken = false
  const failures: unknown[] = []
  const timers: (() => void)[] = []
  const clock = { now: () => 0, monotonic: () => 0, after: (_ms: number, fn: () => void) => (timers.push(fn), () => undefined) }
  const readEvents: EventLog["readEvents"] = (query) => (broken ? Promise.reject(new Error("away")) : log.readEvents(query))
  const feed = new EventFeed({ readEvents, trimEvents: async () => 0 }, clock, (error) => failures.push(error))
  const stream = follow(feed, null, null)
  await flushMicrotasks()
  log.pending.shift()!()
  await flushMicrotasks()
  broken = true
  log.commit([0])
  feed.wake()
  await flushMicrotasks()
  expect(failures).toHaveLength(1)
  broken = false
  timers.pop()!()
  await flushMicrotasks()
  log.pending.shift()!()
  await flushMicrotasks()
  expect(stream.received).toEqual(["1.0"])
})

test("event ids are ordered by batch, then place, as numbers", () => {
  const ordered = ["0.0", "1.0", "1.2", "1.10", "2.0", "10.0"]
  expect(ordered.toReversed().toSorted(compareEventIds)).toEqual(ordered)
})
