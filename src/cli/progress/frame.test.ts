import { expect, test } from "vitest"
import { applyEvent, newTerminalRun } from "./terminal-state.ts"
import { type Frame, frameLines, logKey, countTasks, visibleTasks } from "./frame.ts"
import { event, RUN, type Sketch, T0, workflowOf } from "../../../test/support/view-sketch.ts"
import { paint } from "../terminal/style.ts"
import { textWidth } from "../terminal/text.ts"

const view = (sketch: { [name: string]: Sketch }, ...events: ReturnType<typeof event>[]) => {
  const made = newTerminalRun(RUN, workflowOf(sketch))
  for (const each of events) applyEvent(made, each)
  return made
}

const lines = (frame: Pick<Frame, "view"> & Partial<Frame>): string[] => {
  const whole: Frame = { now: T0 + 10_000, width: 80, height: 24, lastLines: new Map(), timeLeftMs: null, note: null, ...frame }
  return frameLines(whole).map((line) => paint(line, false, whole.width))
}

test("each task has a line with its status, time, instances, attempt and last log line", () => {
  const shown = lines({
    view: view(
      { discover: {}, process: { after: ["discover"], foreach: true }, flaky: {}, report: { after: ["process"] } },
      event(0, "run running"),
      event(0, "discover running"),
      event(1.2, "discover success"),
      event(2, "process running", { total: 8 }),
      event(2, "process/0 running"),
      event(3, "process/0 success"),
      event(3, "process/1 running"),
      event(9, "flaky running", { attempt: 2 }),
    ),
    lastLines: new Map([[logKey("process", "1"), "loading \u001b[31mfile 1"]]),
    timeLeftMs: 20_400,
  })
  expect(shown).toEqual([
    `etl  running  ${RUN}`,
    "✓ discover    1.2s",
    "● process   █░░░░░░░░░ 1/8    8.0s  loading file 1",
    "● flaky       1.0s  attempt 2",
    "· report  ",
    "█████░░░░░░░░░░░░░░░░░░░░░░░░░ 2/11 tasks · 10s · about 20s left",
  ])
})

test("the line of a task contains the delay of its retry, or its error", () => {
  const retry = event(8, "a pending", { availableAt: new Date(T0 + 15_000).toISOString() })
  const shown = lines({
    view: view(
      { a: {}, b: {} },
      event(7, "a running"),
      retry,
      event(1, "b running"),
      event(2, "b failed", { error: "exit code 3" }),
    ),
  })
  expect(shown[1]).toContain("↻ a")
  expect(shown[1]).toContain("retry in 5.0s")
  expect(shown[2]).toContain("✗ b")
  expect(shown[2]).toContain("exit code 3")
})

test("tasks of a group are indented below it, and hooks are shown once they run", () => {
  const sketch = { g: {}, "g.a": { group: "g" }, "on_exit.0": { hook: true } }
  expect(lines({ view: view(sketch) }).slice(1, -1)).toEqual(["· g    ", "  · g.a"])
  expect(lines({ view: view(sketch, event(1, "on_exit.0 running")) })[3]).toContain("● on_exit.0")
})

test("no line is wider than the terminal, however narrow", () => {
  const long = view({ ["x".repeat(60)]: {} }, event(0, "run running"), event(1, `${"x".repeat(60)} running`))
  const lastLines = new Map([[logKey("x".repeat(60), ""), "日本語".repeat(40)]])
  for (const width of [1, 8, 20, 40, 79]) {
    for (const line of lines({ view: long, width, lastLines, note: "press Ctrl-C again to kill" })) {
      expect(textWidth(line)).toBeLessThanOrEqual(width)
    }
  }
})

test("of more tasks than rows, running and failed ones are shown and the rest counted", () => {
  const names = Array.from({ length: 200 }, (_, i) => `t${i}`)
  const many = view(
    Object.fromEntries(names.map((name) => [name, {}])),
    event(1, "t150 running"),
    event(1, "t199 running"),
    event(2, "t199 failed"),
    event(1, "t3 running"),
    event(2, "t3 success"),
  )
  const shown = lines({ view: many, height: 10, note: "note" })
  expect(shown).toHaveLength(9)
  expect(shown.join("\n")).toContain("● t150")
  expect(shown.join("\n")).toContain("✗ t199")
  expect(shown.join("\n")).not.toContain("t3 ")
  expect(shown).toContain("  … 195 more")
  expect(visibleTasks(many, 200).hidden).toBe(0)
})

test("the frame leaves one row free, also in small windows", () => {
  const two = view({ a: {}, b: {} })
  for (const height of [5, 6, 24]) expect(lines({ view: two, height }).length).toBeLessThan(height)
})

test("countTasks counts instances, an unexpanded fan-out as one and a skipped fan-out as none", () => {
  const sketch = { a: {}, b: { foreach: true }, c: { foreach: true } }
  expect(countTasks(view(sketch))).toEqual({ ended: 0, total: 3 })
  const later = view(
    sketch,
    event(1, "a success"),
    event(1, "b running", { total: 5 }),
    event(1, "b/0 success"),
    event(1, "c skipped"),
  )
  expect(countTasks(later)).toEqual({ ended: 2, total: 6 })
})

test("a group has a line with the counts of its items and tasks, and its tasks are listed below it", () => {
  const sketch = {
    g: { foreach: true },
    last: { after: ["g"] },
    "g.a": { group: "g" },
    "g.each": { group: "g", foreach: true },
  }
  const running = view(
    sketch,
    event(1, "g running", { total: 3 }),
    event(1, "g/0 running"),
    event(1, "g/1 running"),
    event(1, "g.each/0 running", { total: 4 }),
    event(2, "g.a/0 success"),
    event(2, "g.each/0.1 success"),
    event(3, "g/0 success"),
  )
  const [, first, second, third, fourth] = lines({ view: running })
  expect(first).toContain("● g")
  expect(first).toContain("1/3, 2/6 tasks")
  expect(second).toMatch(/^ {2}\S g\.a .* 1\/2/)
  expect(third).toMatch(/^ {2}\S g\.each .* 1\/4/)
  expect(fourth).toContain("· last")
})

test("the line of a task contains what it waits for, or its progress, and the time since it started", () => {
  const shown = lines({
    view: view(
      { ask: {}, load: {} },
      event(0, "run running"),
      event(1, "ask running", { waiting: { kind: "approval", message: "go?", until: null } }),
      event(2, "load running"),
      event(8, "load running", { progress: { fraction: 0.4, details: "40 of 100" } }),
    ),
  })
  expect(shown[1]).toBe("● ask     9.0s  waits for approval: go?")
  expect(shown[2]).toBe("● load    8.0s  40% 40 of 100")
})
