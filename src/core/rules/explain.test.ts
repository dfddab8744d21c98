import { describe, expect, it } from "vitest"
import { type ExplainedRun, type ExplainedTask, explainRun, explainTask, type ExplainContext } from "./explain.ts"
import { workflow } from "../testing.ts"

const IDLE = { served: true, paused: false, full: false, rate: null }

const flow = workflow({ extract: {}, load: { after: ["extract"] } }, { name: "etl", maxActiveRuns: 2 })
const run: ExplainedRun = { id: "r", status: "running", paused: false, cancelling: null, activeRuns: 2 }
const around = (rest: Partial<ExplainContext> = {}): ExplainContext => ({
  workflow: flow,
  run,
  nodes: new Map([[0, "running"]]),
  holders: new Map(),
  queue: () => IDLE,
  ...rest,
})
const load = (rest: Partial<ExplainedTask> = {}): ExplainedTask => ({
  node: 1,
  name: "load",
  path: "",
  status: "pending",
  skipReason: null,
  attempt: 0,
  error: null,
  outcome: null,
  worker: null,
  availableAt: null,
  startedAt: null,
  upstreamPending: 0,
  parked: null,
  ...rest,
})
const sentence = (task: Partial<ExplainedTask>, rest: Partial<ExplainContext> = {}): string =>
  explainTask(load(task), around(rest)).sentence

describe("explainTask", () => {
  it.each<[Partial<ExplainedTask>, Partial<ExplainContext>, string]>([
    [{ upstreamPending: 1 }, {}, "load waits for extract (running)."],
    [
      { availableAt: "2026-01-01T00:00:10.000Z", attempt: 1, error: "exit code 1" },
      {},
      "load waits for its retry at 2026-01-01T00:00:10.000Z, after attempt 1 failed: exit code 1.",
    ],
    [{ parked: "paused" }, {}, "load waits because the run is paused."],
    [{ parked: "group" }, {}, "load waits until its group has a slot again."],
    [
      { path: "3", parked: { limit: "t:r:1", cap: 2, used: 2 } },
      { holders: new Map([["t:r:1", ["load[0]", "load[1]"]]]) },
      "load[3] waits for a slot: 2 of 2 instances of it at once (its concurrency), held by load[0], load[1].",
    ],
    [{}, { queue: () => ({ ...IDLE, served: false }) }, "load waits: nobody who is alive takes work from the queue default."],
    [{}, { queue: () => ({ ...IDLE, paused: true }) }, "load waits because the queue default is paused."],
    [{}, { queue: () => ({ ...IDLE, full: true }) }, "load waits for a slot of the queue default."],
    [
      {},
      { queue: () => ({ ...IDLE, rate: { limit: 5, periodMs: 1500 } }) },
      "load is ready and waits for a free slot, or for the rate of the queue default (at most 5 starts in 1.5 s).",
    ],
    [{}, {}, "load is ready and waits for a free slot."],
    [{ status: "dispatched", worker: "w1", attempt: 1 }, {}, "load was given to w1 and has not started yet (attempt 1)."],
    [{ status: "running", worker: "w1", attempt: 2, startedAt: "now" }, {}, "load runs on w1 since now (attempt 2)."],
    [{ status: "success", attempt: 2 }, {}, "load succeeded in attempt 2."],
    [{ status: "success" }, {}, "load took its output from the cache."],
    [{ status: "failed", attempt: 1, error: "exit code 3" }, {}, "load failed in attempt 1 of at most 1: exit code 3."],
    [{ status: "skipped", error: "if: params.x is false" }, {}, "load was skipped: if: params.x is false."],
    [{ status: "cancelled" }, {}, "load was cancelled with its run."],
  ])("of %j is a sentence", (task, rest, expected) => expect(sentence(task, rest)).toBe(expected))
})

describe("a task that calls a function which nobody takes", () => {
  const calls = workflow({ shrink: { executor: "function", function: "resize", queue: "media", labels: ["gpu"] } })
  const why = (registered: boolean): string =>
    sentence({ node: 0, name: "shrink" }, { workflow: calls, queue: () => ({ ...IDLE, served: false, registered }) })

  it("says that no worker has it, and what to do", () => {
    expect(why(false)).toMatch(
      /^shrink waits: no worker has the function resize; start one that registers it \(.*startWorker\)\.$/,
    )
  })

  it("says what those lack who have it", () => {
    expect(why(true)).toBe(
      "shrink waits: nobody who is alive has the function resize and takes work from the queue media and has the label gpu.",
    )
  })
})

describe("explainRun", () => {
  it.each<[Partial<ExplainedRun>, string | undefined]>([
    [{ status: "pending" }, "The run waits: 2 of at most 2 runs of etl are active (max_active_runs)."],
    [{ cancelling: "cancel" }, "The run is ending because it was cancelled; it ends when the last of its processes is dead."],
    [{ paused: true }, "The run is paused: nothing new starts until it is resumed."],
    [{}, undefined],
  ])("of %j", (rest, expected) => expect(explainRun({ workflow: flow, run: { ...run, ...rest } })?.sentence).toBe(expected))
})
