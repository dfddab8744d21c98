import { expect, test } from "vitest"
import { applyEvent, newTerminalRun } from "./terminal-state.ts"
import { failuresOf, logCommand, type Summary, summaryLines } from "./summary.ts"
import { event, RUN, type Sketch, workflowOf } from "../../../test/support/view-sketch.ts"
import { paint } from "../terminal/style.ts"

const view = (sketch: { [name: string]: Sketch }, ...events: ReturnType<typeof event>[]) => {
  const made = newTerminalRun(RUN, workflowOf(sketch))
  for (const each of events) applyEvent(made, each)
  return made
}

const counts = { pending: 0, dispatched: 0, running: 0, success: 0, failed: 0, skipped: 0, cancelled: 0 }
const text = (summary: Partial<Summary> & Pick<Summary, "view">): string =>
  summaryLines({ counts, failures: [], more: 0, ...summary })
    .map((line) => paint(line, false))
    .join("\n")

test("the summary of a success contains its duration, critical path and counts", () => {
  const shown = text({
    view: view(
      { a: {}, b: { after: ["a"] } },
      event(0, "run running"),
      event(0, "a running"),
      event(1, "a success"),
      event(1, "b running"),
      event(13, "b success"),
      event(13, "run success"),
    ),
    counts: { ...counts, success: 2, skipped: 1 },
  })
  expect(shown).toBe(
    [`✓ etl success in 13s  ${RUN}`, "  critical path: a 1.0s → b 12s", "  tasks: 2 success, 1 skipped"].join("\n"),
  )
})

test("a failure is listed with attempt, error, the tail of its log and the command for the full log", () => {
  const failed = view(
    { a: {} },
    event(0, "run running"),
    event(1, "a failed", { attempt: 3, error: "exit code 1" }),
    event(1, "run failed"),
  )
  const { shown, total } = failuresOf(failed)
  expect(total).toBe(1)
  expect(text({ view: failed, failures: [{ failure: shown[0]!, lastLines: ["one", "\u001b[31mtwo"] }] })).toContain(
    ["", "✗ a, attempt 3: exit code 1", "    one", "    two", `  full log: ork logs ${RUN} a`].join("\n"),
  )
})

test("a fan-out that failed before it had instances is listed itself, without a log", () => {
  const failed = view({ a: { foreach: true } }, event(1, "a failed", { error: "x.y is a number, not a list", attempt: 0 }))
  const { shown } = failuresOf(failed)
  expect(shown).toEqual([{ task: "a", path: "", attempt: 0, error: "x.y is a number, not a list" }])
  expect(text({ view: failed, failures: [{ failure: shown[0]!, lastLines: [] }] })).not.toContain("ork logs")
})

test("of many failures the first are listed and the rest counted", () => {
  const many = view({ a: { foreach: true } }, event(0, "a running", { total: 150 }))
  for (let i = 0; i < 150; i++) applyEvent(many, event(1, `a/${i} failed`, { error: "no" }))
  applyEvent(many, event(1, "a failed", { error: "150 of 150 instances failed" }))
  const { shown, total } = failuresOf(many)
  expect([shown.length, total]).toEqual([5, 150])
  expect(text({ view: many, more: 145 })).toContain(`… and 145 more failed; see them with ork show ${RUN}`)
})

test.each([
  ["", "ork logs R a"],
  ["3", "ork logs R a --index 3"],
  ["1.2", "ork logs R a --path 1.2"],
])("the log of path %j is printed by `%s`", (path, command) => {
  expect(logCommand("R", { task: "a", path, attempt: 1, error: "" })).toBe(command)
})

test("a long critical path shows its first and last tasks", () => {
  const sketch: { [name: string]: Sketch } = {}
  for (let i = 0; i < 30; i++) sketch[`t${i}`] = i === 0 ? {} : { after: [`t${i - 1}`] }
  const long = view(sketch)
  for (let i = 0; i < 30; i++) {
    applyEvent(long, event(i, `t${i} running`))
    applyEvent(long, event(i + 1, `t${i} success`))
  }
  expect(text({ view: long })).toContain("t5 1.0s → … 18 tasks … → t24 1.0s")
})
