// Durable functions: the recorded steps of each, and the signals sent to it. A function is the only task of its run; its steps and
// signals belong to the row of that task.

import type { Output } from "../../core/model/change.ts"
import type { AttemptId, RunId } from "../../core/model/ids.ts"
import type { Json } from "../../core/values/json.ts"

const STEP_KINDS = ["run", "sleep", "wait", "call", "tx", "approval", "value", "patch"] as const
export type StepKind = (typeof STEP_KINDS)[number]

/** `waiting`: it has begun, and has no result yet. */
export type StepState = "waiting" | "success" | "failed"

export interface Step {
  name: string
  /** Counts the steps of this name in one function, from 0. */
  occurrence: number
  /** Counts all steps of the function in the order in which they began. */
  position: number
  kind: StepKind
  state: StepState
  /** Number of failed tries. */
  failures: number
  output: Output | null
  error: string | null
  /** What the step needs to go on: the instant of its end, the id of a child, of a signal, of an approval. */
  details: Json
  startedAt: string
  finishedAt: string | null
}

/** A step to record, under the fence of the attempt that runs the function. */
export interface NewStep extends Step {
  row: number
  attemptId: AttemptId
}

export interface Signal {
  id: number
  name: string
  payload: Json
  sentAt: string
}

export interface FunctionState {
  steps: Step[]
  /** In the order in which they were sent. */
  signals: Signal[]
  /** Number of requests to resume the function so far, see `wait` in core/model/change.ts. */
  resumeRequests: number
}

export interface NewSignal {
  runId: RunId
  name: string
  payload: Json
  /** A second signal of the same name with this key is ignored. */
  key: string | null
}

/** `unknown`: there is no such run, or it is no function. `ended`: the run has ended. */
export type SignalOutcome = "sent" | "repeated" | "ended" | "unknown"

export interface FunctionStore {
  /** Reads what the functions of these rows have recorded. */
  loadFunctions(rows: readonly number[]): Promise<Map<number, FunctionState>>
  /** Records steps, each of which replaces an earlier record of the same step. Returns the ids of attempts that lost their fence. */
  recordSteps(steps: readonly NewStep[]): Promise<AttemptId[]>
  sendSignal(signal: NewSignal): Promise<SignalOutcome>
  /** Lists the steps of a run in the order in which they began. */
  listSteps(runId: RunId): Promise<Step[]>
}
