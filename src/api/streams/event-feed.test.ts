// Whatever the order of commits, reads and wakes: a stream gets every event after its id once, in order.

import fc from "fast-check"
import { expect, test } from "vitest"
import { systemClock } from "../../engine/system.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { EventLog, LoggedEvent } from "../../store/contract/event-log.ts"
import { compareEventIds, EventFeed, type Frame } from "./event-feed.ts"

const RUNS = ["run-a", "run-b"] as RunId[]

/** A log whose reads see the state of the moment they begin and answer when the test says so. */
class SlowLog implements EventLog {
  readonly events: LoggedEvent[] = []
  readonly waiting: (() => void)[] = []
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
    await new Promise<void>((resolve) => void this.waiting.push(resolve))
    return { events: found, cursor: found.at(-1)?.id ?? end, gap: false }
  }

  async trimEvents(): Promise<number> {
    return 0
  }
}

const settle = async (): Promise<void> => {
  for (let i = 0; i < 10; i++) await Promise.resolve()
}

const open = (feed: EventFeed, runId: RunId | null, after: string | null) => {
  const got: string[] = []
  const closed = new AbortController()
  const take = (frames: readonly Frame[]): void => void got.push(...frames.map((frame) => frame.event.id))
  let gaps = 0
  void feed.follow({
    runId,
    after,
    signal: closed.signal,
    catchUp: async (frames) => {
      take(frames)
      await Promise.resolve()
    },
    deliver: take,
    onGap: () => void (gaps += 1),
  })
  return { got, close: () => closed.abort(), gaps: () => gaps }
}

type Step = { commit: number[] } | { answer: number } | { wake: true }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ commit: fc.array(fc.integer({ min: 0, max: 1 }), { minLength: 1, maxLength: 4 }) }) },
  { weight: 6, arbitrary: fc.record({ answer: fc.nat(5) }) },
  { weight: 3, arbitrary: fc.constant({ wake: true as const }) },
)

test("catching up and going live loses nothing and repeats nothing, in any order of reads and commits", async () => {
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
        // Somebody else listens all the time, so that the feed moves while the stream catches up.
        const other = open(feed, null, null)
        await settle()
        log.waiting.shift()?.()
        await settle()
        const after = place === null ? null : (log.events[place]?.id ?? "0.0")
        let stream: ReturnType<typeof open> | null = null
        let begun = 0
        const join = async (): Promise<void> => {
          begun = log.events.length
          stream = open(feed, runId, after)
          await settle()
        }
        for (const [i, each] of steps.entries()) {
          if (i === joinAt) await join()
          if ("commit" in each) {
            log.commit(each.commit)
            feed.wake()
          } else if ("answer" in each) log.waiting.splice(each.answer % Math.max(1, log.waiting.length), 1)[0]?.()
          else feed.wake()
          await settle()
        }
        if (stream === null) await join()
        feed.wake()
        for (let i = 0; i < 500 && (i < 5 || log.waiting.length > 0); i++) {
          log.waiting.shift()?.()
          await settle()
        }
        const mine = (events: readonly LoggedEvent[]): string[] =>
          events.filter((event) => runId === null || event.runId === runId).map((event) => event.id)
        const { got } = stream!
        if (after === null) {
          // From now on: at the latest with what was committed after it was opened, and without a hole.
          const all = mine(log.events)
          expect(all.slice(all.length - got.length)).toEqual(got)
          expect(got.length).toBeGreaterThanOrEqual(mine(log.events.slice(begun)).length)
        } else expect(got).toEqual(mine(log.events.filter((event) => compareEventIds(event.id, after) > 0)))
        expect(other.got).toEqual(log.events.slice(earlier.length).map((event) => event.id))
        stream!.close()
        other.close()
      },
    ),
    { numRuns: 3000 },
  )
})

test("with nobody listening nothing is read", async () => {
  const log = new SlowLog()
  const feed = new EventFeed(log, systemClock, () => undefined)
  feed.wake()
  await settle()
  expect(log.reads).toBe(0)
  const stream = open(feed, null, null)
  await settle()
  log.waiting.shift()!()
  await settle()
  stream.close()
  const reads = log.reads
  feed.wake()
  await settle()
  expect(log.reads).toBe(reads)
})

test("one read serves any number of streams", async () => {
  const log = new SlowLog()
  const feed = new EventFeed(log, systemClock, () => undefined)
  const streams = Array.from({ length: 50 }, () => open(feed, null, null))
  await settle()
  log.waiting.shift()!()
  await settle()
  const before = log.reads
  log.commit([0])
  feed.wake()
  feed.wake()
  await settle()
  log.waiting.shift()!()
  await settle()
  for (const { got } of streams) expect(got).toEqual(["1.0"])
  expect(log.reads - before).toBeLessThanOrEqual(2)
  for (const each of streams) each.close()
})

test("an id from the future is a gap, not a stream that stays silent", async () => {
  const log = new SlowLog()
  const feed = new EventFeed(log, systemClock, () => undefined)
  log.commit([0])
  const stream = open(feed, null, "99.0")
  for (let i = 0; i < 5; i++) {
    await settle()
    log.waiting.shift()?.()
  }
  await settle()
  expect(stream.gaps()).toBe(1)
  log.commit([1])
  feed.wake()
  for (let i = 0; i < 5; i++) {
    await settle()
    log.waiting.shift()?.()
  }
  await settle()
  expect(stream.got).toEqual(["2.0"])
  stream.close()
})

test("a commit of another process that nobody told of is found by a look of its own", async () => {
  const log = new SlowLog()
  const timers = new Set<() => void>()
  const clock = { now: () => 0, after: (_ms: number, fn: () => void) => (timers.add(fn), () => timers.delete(fn)) }
  const feed = new EventFeed(log, clock, () => undefined)
  const stream = open(feed, null, null)
  await settle()
  log.waiting.shift()!()
  await settle()
  log.commit([0])
  const due = [...timers]
  for (const fire of due) fire()
  await settle()
  log.waiting.shift()!()
  await settle()
  expect(stream.got).toEqual(["1.0"])
  log.waiting.shift()?.()
  stream.close()
  expect(timers.size).toBe(0)
})

test("when the log cannot be read the feed goes on where it was", async () => {
  const log = new SlowLog()
  let broken = false
  const failures: unknown[] = []
  const timers: (() => void)[] = []
  const clock = { now: () => 0, after: (_ms: number, fn: () => void) => (timers.push(fn), () => undefined) }
  const readEvents: EventLog["readEvents"] = (query) => (broken ? Promise.reject(new Error("away")) : log.readEvents(query))
  const feed = new EventFeed({ readEvents, trimEvents: async () => 0 }, clock, (error) => failures.push(error))
  const stream = open(feed, null, null)
  await settle()
  log.waiting.shift()!()
  await settle()
  broken = true
  log.commit([0])
  feed.wake()
  await settle()
  expect(failures).toHaveLength(1)
  broken = false
  timers.pop()!()
  await settle()
  log.waiting.shift()!()
  await settle()
  expect(stream.got).toEqual(["1.0"])
})
