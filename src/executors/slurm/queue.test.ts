import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { isLive, isOver, isWaiting, parseScontrol, parseSqueue } from "./queue.ts"

/** Output that was recorded from a real Slurm 22.05. */
const recorded = (name: string): string => readFileSync(join(import.meta.dirname, "testing", name), "utf8")

const JOBS = [
  { id: "2", name: "t.sh", task: null, tasks: null, state: "FAILED", reason: "JobLaunchFailure", exitCode: 0, signal: 9 },
  { id: "3_0", name: "ork-a1", task: 0, tasks: null, state: "RUNNING", reason: "None", exitCode: 0, signal: 0 },
  { id: "3", name: "ork-a1", task: null, tasks: [2, 3, 4, 5], state: "PENDING", reason: "Resources", exitCode: 0, signal: 0 },
]

test("both commands of Slurm 22.05 describe the same queue", () => {
  expect(parseSqueue(recorded("squeue-22.05.json"))).toEqual(JOBS)
  expect(parseScontrol(recorded("scontrol-22.05.txt"))).toEqual(JOBS)
})

test("the JSON of newer versions is parsed", () => {
  const number = (value: number | null) => ({ set: value !== null, infinite: false, number: value ?? 0 })
  const jobs = [
    {
      job_id: 9,
      array_job_id: number(7),
      array_task_id: number(2),
      array_task_string: "",
      name: "ork-x",
      job_state: ["FAILED"],
      state_reason: "NonZeroExitCode",
      exit_code: { status: ["ERROR"], return_code: number(3), signal: { id: number(null), name: "" } },
    },
    {
      job_id: 7,
      array_job_id: number(7),
      array_task_id: number(null),
      array_task_string: "3,5-9:2%4",
      name: "ork-x",
      job_state: ["PENDING"],
      state_reason: "Priority",
      exit_code: { status: ["SUCCESS"], return_code: number(0), signal: { id: number(null), name: "" } },
    },
    { job_id: 8, array_job_id: number(0), array_task_id: number(null), name: "y", job_state: ["RUNNING", "COMPLETING"] },
  ]
  expect(parseSqueue(JSON.stringify({ jobs }))).toEqual([
    { id: "7_2", name: "ork-x", task: 2, tasks: null, state: "FAILED", reason: "NonZeroExitCode", exitCode: 3, signal: 0 },
    { id: "7", name: "ork-x", task: null, tasks: [3, 5, 7, 9], state: "PENDING", reason: "Priority", exitCode: 0, signal: 0 },
    { id: "8", name: "y", task: null, tasks: null, state: "RUNNING", reason: "", exitCode: 0, signal: 0 },
  ])
})

test("a queue without jobs is empty, and text that is not JSON is an error", () => {
  expect(parseSqueue('{"jobs":[]}')).toEqual([])
  expect(parseScontrol("No jobs in the system\n")).toEqual([])
  expect(() => parseSqueue("squeue: unrecognized option")).toThrow(SyntaxError)
})

test("every state is exactly one of waiting, live and over", () => {
  const classes = (state: string) => [isWaiting, isLive, isOver].map((is) => is({ ...JOBS[0]!, state }))
  expect(classes("PENDING")).toEqual([true, false, false])
  expect(classes("COMPLETING")).toEqual([false, true, false])
  for (const state of ["COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "CANCELLED", "PREEMPTED", "NEW_ONE"]) {
    expect(classes(state)).toEqual([false, false, true])
  }
})

test("a response with errors is not an empty queue", () => {
  const text = JSON.stringify({ errors: [{ error: "Unable to contact slurm controller" }], jobs: [] })
  expect(() => parseSqueue(text)).toThrow("the queue cannot be read: Unable to contact slurm controller")
})
