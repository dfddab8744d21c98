import { describe, expect, it } from "vitest"
import { type ExplainedRun, type ExplainedTask, explainRun, explainTask, type ExplainContext } from "./explain.ts"
import { workflow } from "../testing.ts"

const IDLE = { served: true, paused: false, full: false, rate: null }

const flow = workflow({ extract: {}, load: { after: ["extract"] } }, { name: "etl", maxActiveRuns: 2 })
const run: ExplainedRun = { id: "r", status: "running", paused: false, cancelling: null, activeRuns: 2 }
const context = (rest: Partial<ExplainContext> = {}): ExplainContext => ({
  workflow: flow,
  run,
  nodes: new Map([[0, "running"]]),
  slotUsers: new Map(),
  now: 0,
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
  lastAttemptState: null,
  worker: null,
  availableAt: null,
  startedAt: null,
  upstreamPending: 0,
  parked: null,
  ...rest,
})
const sentence = (task: Partial<ExplainedTask>, rest: Partial<ExplainContext> = {}): string =>
  explainTask(load(task), context(rest)).sentence

describe("explainTask", () => {
  it("says that a task that has not ended is past its deadline", () => {
    const late = workflow({ extract: {}, load: { after: ["extract"], deadlineMs: 60_000 } })
    const startedAt = "2026-01-01T00:00:00.000Z"
    const at = (ms: number) => ({ workflow: late, run: { ...run, startedAt }, now: Date.parse(startedAt) + ms })
    expect(sentence({}, at(60_000))).toBe("load is ready and waits for a free slot.")
    expect(sentence({}, at(60_001))).toBe(
      "load is ready and waits for a free slot; it is past its deadline, 1m after the start of the run.",
    )
    expect(sentence({ status: "success", attempt: 1, lastAttemptState: "success" }, at(60_001))).toBe(
      "load succeeded in attempt 1.",
    )
  })

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
      { slotUsers: new Map([["t:r:1", ["load[0]", "load[1]"]]]) },
      "load[3] waits for a slot of its concurrency: 2 of 2 in use by load[0], load[1].",
    ],
    [
      {},
      { queue: () => ({ ...IDLE, served: false }) },
      "load waits because no live server or worker accepts the queue default.",
    ],
    [{}, { queue: () => ({ ...IDLE, paused: true }) }, "load waits because the queue default is paused."],
    [{}, { queue: () => ({ ...IDLE, full: true }) }, "load waits for a slot of the queue default."],
    [
      {},
      { queue: () => ({ ...IDLE, rate: { limit: 5, periodMs: 1500 } }) },
      "load is ready and waits for a free slot, or for the rate of the queue default (at most 5 starts in 1.5 s).",
    ],
    [{}, {}, "load is ready and waits for a free slot."],
    [{ status: "dispatched", worker: "w1", attempt: 1 }, {}, "load was claimed by w1 and has not started yet (attempt 1)."],
    [{ status: "running", worker: "w1", attempt: 2, startedAt: "now" }, {}, "load runs on w1 since now (attempt 2)."],
    [
      { status: "running", worker: "w1", attempt: 2, startedAt: "now", progress: { details: "4 of 10" } },
      {},
      "load runs on w1 since now (attempt 2); 4 of 10.",
    ],
    [
      { status: "running", worker: "w1", attempt: 2, startedAt: "now", progress: { details: { done: 4 } } },
      {},
      "load runs on w1 since now (attempt 2).",
    ],
    [
      { status: "dispatched", worker: "w1", attempt: 1, progress: { details: "Slurm job 7 is PENDING (Priority)" } },
      {},
      "load was claimed by w1 and has not started yet (attempt 1); Slurm job 7 is PENDING (Priority).",
    ],
    [{ status: "success", attempt: 2, lastAttemptState: "success" }, {}, "load succeeded in attempt 2."],
    [{ parked: { limit: "k:limit:send", cap: 2, used: 2 } }, {}, "load waits for a slot of its limit: 2 of 2 in use."],
    [
      { parked: { limit: "k:job:q:tenant", cap: 1, used: 1 } },
      {},
      "load waits for a slot of its concurrency_key: 1 of 1 in use.",
    ],
    [
      { status: "success" },
      { workflow: workflow({ extract: {}, load: { after: ["extract"], cache: { key: "1", ttlMs: null } } }) },
      "load took its output from the cache.",
    ],
    [{ status: "success" }, {}, "load was marked as successful before its first attempt."],
    [{ status: "success", attempt: 2, lastAttemptState: "failed" }, {}, "load was marked as successful after attempt 2."],
    [{ status: "failed", attempt: 1, error: "exit code 3" }, {}, "load failed in attempt 1 of at most 1: exit code 3."],
    [{ status: "skipped", error: "if: params.x is false" }, {}, "load was skipped: if: params.x is false."],
    [{ status: "cancelled" }, {}, "load was cancelled with its run."],
  ])("explains %j", (task, rest, expected) => expect(sentence(task, rest)).toBe(expected))
})

describe("a task that calls a function without a worker for it", () => {
  const calls = workflow({ shrink: { executor: "function", function: "resize", queue: "media", labels: ["gpu"] } })
  const why = (registered: boolean): string =>
    sentence({ node: 0, name: "shrink" }, { workflow: calls, queue: () => ({ ...IDLE, served: false, registered }) })

  it("is explained with how to start a worker, when none has the function", () => {
    expect(why(false)).toMatch(
      /^shrink waits because no live worker has the function resize; start one that registers it \(.*startWorker\)\.$/,
    )
  })

  it("is explained with all requirements, when a worker has the function", () => {
    expect(why(true)).toBe(
      "shrink waits because no live worker accepts the queue media and has the label gpu and has the function resize.",
    )
  })
})

describe("explainRun", () => {
  it.each<[Partial<ExplainedRun>, string | undefined]>([
    [{ status: "pending" }, "The run waits because 2 of at most 2 runs of etl are active (max_active_runs)."],
    [{ status: "pending", activeRuns: 1 }, "The run waits for an earlier run of its schedule to end (overlap: queue)."],
    [{ cancelling: "cancel" }, "The run is stopping because it was cancelled; it closes when its last process has exited."],
    [{ paused: true }, "The run is paused: nothing new starts until it is resumed."],
    [{}, undefined],
  ])("explains %j", (rest, expected) =>
    expect(explainRun({ workflow: flow, run: { ...run, ...rest } })?.sentence).toBe(expected),
  )
})
