import { expect, test } from "vitest"
import { LiveReporter } from "./live-reporter.ts"
import { applyEvent, newTerminalRun } from "./terminal-state.ts"
import { event, RUN, T0, workflowOf } from "../../../test/support/view-sketch.ts"
import { paint, type Span } from "../terminal/style.ts"

const setup = () => {
  const timers: { at: number; fn: () => void }[] = []
  const clock = {
    time: T0,
    now: () => clock.time,
    monotonic: () => clock.time,
    after: (ms: number, fn: () => void) => {
      const timer = { at: clock.time + ms, fn }
      timers.push(timer)
      return () => void timers.splice(timers.indexOf(timer), 1)
    },
  }
  /** Advances the clock from timer to timer; pending promises settle in between. */
  const advance = async (ms: number): Promise<void> => {
    const end = clock.time + ms
    for (;;) {
      const next = timers.filter((timer) => timer.at <= end).toSorted((a, b) => a.at - b.at)[0]
      if (next === undefined) break
      timers.splice(timers.indexOf(next), 1)
      clock.time = next.at
      next.fn()
      for (let i = 0; i < 20; i++) await Promise.resolve()
    }
    clock.time = end
  }
  const frames: string[] = []
  const screen = {
    size: { width: 80, height: 24 },
    draw: (lines: readonly (readonly Span[])[]) => void frames.push(lines.map((line) => paint(line, false)).join("\n")),
    close: () => void frames.push("closed"),
  }
  const view = newTerminalRun(RUN, workflowOf({ a: {}, b: { after: ["a"] } }))
  const requested: string[] = []
  const warnings: string[] = []
  const reporter = new LiveReporter({
    view,
    screen,
    clock,
    pastDurations: new Map([["a", 20]]),
    concurrency: 4,
    lastLine: (task, path, attempt) => {
      requested.push(`${task}/${path}/${attempt}`)
      return task === "a" ? Promise.resolve("hello") : Promise.reject(new Error("no log"))
    },
    printWarning: (text) => void warnings.push(text),
  })
  const report = (...given: Parameters<typeof event>): void => {
    applyEvent(view, event(...given))
    reporter.event()
  }
  return { reporter, view, advance, frames, requested, warnings, report, timers }
}

test("the view is drawn at most ten times a second", async () => {
  const { reporter, advance, frames, report } = setup()
  reporter.start()
  for (let i = 0; i < 1000; i++) {
    report(0, "a running")
    await advance(1)
  }
  expect(frames.length).toBeLessThanOrEqual(11)
  expect(frames.length).toBeGreaterThan(8)
})

test("the view shows the last log line of a running task and the estimated remaining time", async () => {
  const { reporter, advance, frames, requested, report } = setup()
  reporter.start()
  report(0, "run running")
  report(0, "a running", { attempt: 2 })
  await advance(1000)
  expect(requested).toContain("a//2")
  expect(frames.at(-1)).toContain("attempt 2  hello")
  expect(frames.at(-1)).toContain("about 39s left")
})

test("an unreadable log does not stop the view", async () => {
  const { reporter, advance, frames, report } = setup()
  reporter.start()
  report(0, "b running")
  await advance(2000)
  expect(frames.at(-1)).toContain("● b")
})

test("a note is drawn immediately; warnings are printed after the view is closed, and nothing is drawn then", async () => {
  const { reporter, advance, frames, warnings, timers } = setup()
  reporter.start()
  reporter.note("cancelling…")
  expect(frames.at(-1)).toContain("cancelling…")
  reporter.warn("slow store")
  expect(warnings).toEqual([])
  reporter.stop()
  expect([frames.at(-1), warnings, timers]).toEqual(["closed", ["slow store"], []])
  const drawn = frames.length
  reporter.stop()
  await advance(1000)
  expect(frames).toHaveLength(drawn)
})
