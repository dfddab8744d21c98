// Graphs of recorded workflow executions, run as real processes: no task may start before all of its parents have finished.

import { existsSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { convert, readTrace, TRACES, type Trace, type TraceWorkflow } from "../bench/wfcommons.ts"
import { orkRun, temporaryFolder, type OrkEvent } from "./support/ork.ts"

const ALL = process.env.ORK_TEST_ALL === "1"
const LARGEST_IN_SLICE = 100

const traces = existsSync(TRACES) ? readdirSync(TRACES).filter((file) => file.endsWith(".json")) : []
const wanted = traces.filter((file) => ALL || readTrace(file).tasks.length <= LARGEST_IN_SLICE)

const LADDER: Trace = {
  name: "ladder",
  tasks: Array.from({ length: 30 }, (_, i) => ({
    id: `rung ${i}`,
    parents: [i - 2, i - 3].filter((parent) => parent >= 0).map((parent) => `rung ${parent}`),
    runtime_s: i % 3,
  })),
}

test("names become valid and stay unique, and run times are scaled", () => {
  const workflow = convert(
    {
      name: "odd/name",
      tasks: [
        { id: "a b", parents: [], runtime_s: 2 },
        { id: "a.b", parents: ["a b"], runtime_s: -1 },
      ],
    },
    0.5,
  )
  expect(workflow.name).toBe("odd-name")
  expect(workflow.tasks).toEqual({
    t_a_b: { command: ["sleep", "1.000"], depends_on: [] },
    "t_a_b-2": { command: ["sleep", "0.000"], depends_on: ["t_a_b"] },
  })
})

test("without a scale the longest chain takes three seconds", () => {
  const chain = {
    name: "chain",
    tasks: [
      { id: "b", parents: ["a"], runtime_s: 20 },
      { id: "a", parents: [], runtime_s: 10 },
    ],
  }
  expect(Object.values(convert(chain).tasks).map((task) => task.command[1])).toEqual(["2.000", "1.000"])
})

test("a parent that is not a task is rejected", () => {
  expect(() => convert({ name: "x", tasks: [{ id: "a", parents: ["b"], runtime_s: 1 }] })).toThrow("names a parent b")
})

test("a graph of thirty tasks runs in order", async () => {
  await runsInOrder(convert(LADDER))
})

test.skipIf(wanted.length === 0).each(wanted.length > 0 ? wanted : ["(no traces here; set ORK_WFINSTANCES)"])(
  "the trace %s keeps its order",
  async (file) => {
    await runsInOrder(convert(readTrace(file)))
  },
  120_000,
)

const runsInOrder = async (workflow: TraceWorkflow): Promise<void> => {
  const cwd = temporaryFolder()
  const file = join(cwd, "workflow.json")
  writeFileSync(file, JSON.stringify(workflow))
  const { code, events, run, stderr } = await orkRun([file], { cwd })
  expect({ code, status: run.status, stderr }).toEqual({ code: 0, status: "success", stderr: "" })
  const names = Object.keys(workflow.tasks)
  expect(run.tasks.success).toBe(names.length)
  const [started, ended] = [timesOf(events, "running"), timesOf(events, "success")]
  expect(started.size).toBe(names.length)
  expect(ended.size).toBe(names.length)
  for (const name of names) {
    for (const parent of workflow.tasks[name]!.depends_on) {
      const [start, end] = [started.get(name)!, ended.get(parent)!]
      expect(start.at >= end.at && start.line > end.line, `${name} started at ${start.at}, ${parent} ended at ${end.at}`).toBe(
        true,
      )
    }
  }
}

const timesOf = (events: OrkEvent[], status: string): Map<string, { at: string; line: number }> =>
  new Map(
    events.flatMap((event, line) => (event.task && event.status === status ? [[event.task, { at: event.at, line }]] : [])),
  )
