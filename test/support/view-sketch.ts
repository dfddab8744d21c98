// Short notations for workflows and events, for tests of the run view.

import type { RunId } from "../../src/core/model/ids.ts"
import type { CompiledWorkflow, Node } from "../../src/core/model/workflow.ts"
import type { RunEvent } from "../../src/cli/progress/terminal-state.ts"

export const RUN = "01900000-0000-7000-8000-000000000000" as RunId
export const T0 = Date.UTC(2026, 0, 1, 12)

export interface Sketch {
  after?: string[]
  foreach?: boolean
  group?: string
  hook?: boolean
  concurrency?: number
}

/** Compiles a sketch such as `{ a: {}, b: { after: ["a"] } }`. */
export const workflowOf = (sketch: { [name: string]: Sketch }, concurrency?: number): CompiledWorkflow => {
  const names = Object.keys(sketch)
  const upstream = (name: string): number[] => (sketch[name]!.after ?? []).map((up) => names.indexOf(up))
  const nodes = names.map((name, index): Node => {
    const { foreach, group, hook, concurrency: width } = sketch[name]!
    return {
      name,
      group: group === undefined ? null : names.indexOf(group),
      hook: hook === true ? "on_exit" : null,
      executor: "process",
      upstream: upstream(name),
      downstream: names.flatMap((other, i) => (upstream(other).includes(index) ? [i] : [])),
      reads: upstream(name),
      rule: "all_success",
      ...(foreach === true ? { fan: { foreach: { lit: [] }, reference: "[]" } } : {}),
      ...(width === undefined ? {} : { concurrency: width }),
      gated: foreach === true,
      command: { shell: "true", vars: [] },
      fields: {},
      env: {},
      retry: { maxAttempts: 1, backoff: "exponential", baseDelayMs: 1000, maxDelayMs: 300_000, jitter: false },
      lostRetries: 3,
      timeoutMs: null,
      startTimeoutMs: null,
      queue: "default",
      labels: [],
      priority: null,
    }
  })
  return {
    format: 1,
    name: "etl",
    tags: [],
    params: [],
    schedules: [],
    notify: [],
    include: [],
    nodes,
    ...(concurrency === undefined ? {} : { concurrency }),
  }
}

/** Creates an event: `event(2, "b running")`, `event(3, "b/4 failed", { error: "…" })`, `event(0, "run running")`. */
export const event = (seconds: number, text: string, more: Partial<RunEvent> = {}): RunEvent => {
  const [subject, status] = text.split(" ") as [string, RunEvent["status"]]
  const at = new Date(T0 + seconds * 1000).toISOString()
  if (subject === "run") return { type: "run", runId: RUN, status, at, ...more }
  const [task, path] = subject.split("/") as [string, string | undefined]
  return { type: "task", runId: RUN, task, path: path ?? "", attempt: 1, status, at, ...more }
}
