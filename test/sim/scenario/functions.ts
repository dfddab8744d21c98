// Adds durable functions to some worlds: random programs of steps, runs of them, and the signals that users send. Uses random streams
// of its own, which leaves the rest of the seed as it is.

import { functionWorkflow } from "../../../src/core/model/function-workflow.ts"
import { task, workflow } from "../../../src/sdk/definitions.ts"
import { Rng } from "../rng.ts"
import type { RunSpec, UserAction } from "./scenario.ts"
import { newSimNode, type SimWorkflow } from "./workflows.ts"

/** The first `failures` tries fail, of `attempts` at most. */
export interface Tries {
  workMs: number
  failures: number
  attempts: number
  delayMs: number
}

export type StepOp =
  | ({ kind: "run"; isLarge: boolean } & Tries)
  | ({ kind: "tx" } & Tries)
  | { kind: "sleep"; ms: number }
  | { kind: "wait"; timeoutMs: number | null }
  | { kind: "call"; fails: boolean }
  | { kind: "child" }
  | { kind: "now" }

/**
 * `all`: its steps at the same time. `guard`: a step in `finally` cleans up after a cancel. `catch`: the failure of its steps is no
 * failure.
 */
export type Op = (StepOp | { kind: "all" | "guard" | "catch"; ops: Op[] }) & {
  /** Unique in a program. Names the step. */
  id: number
}

/** A signal that a user sends, again and again until it is acknowledged, `at` milliseconds after the start. */
export interface SignalSpec {
  at: number
  name: string
  key: string | null
  payload: string
}

export interface FunctionWorld {
  workflows: SimWorkflow[]
  /** Their `workflow` is an index in `workflows`. */
  runs: RunSpec[]
  /** Their `run` is an index in `runs`. */
  actions: UserAction[]
}

export const NO_FUNCTIONS: FunctionWorld = { workflows: [], runs: [], actions: [] }

const SHARE = 0.15
const MAX_DEPTH = 2
const MAX_OPS = 4
const SPAN_MS = 20_000
/** The signal of all waits that follow one another. */
export const SHARED_SIGNAL = "go"
export const CHILD_TASK = "called"
export const CHILD_FUNCTION = "child-function"
const CHILD_PROGRAM: Op[] = [
  { id: 0, kind: "sleep", ms: 3000 },
  { id: 1, kind: "run", isLarge: false, workMs: 100, failures: 0, attempts: 3, delayMs: 100 },
]

export const makeFunctions = (seed: number): FunctionWorld => {
  const rng = new Rng("functions", seed)
  if (!rng.chance(SHARE)) return NO_FUNCTIONS
  const programs = Array.from({ length: rng.int(1, 2) }, () => makeSequence(rng, 0, false))
  const workflows = programs.map((program, i) => functionOf(`function${i}`, program, rng.pick([1, 1, 2])))
  const runs = Array.from({ length: rng.int(1, 3) }, (_, i) => makeRun(rng, `f${i}`, rng.int(0, programs.length - 1), programs))
  const actions = runs.flatMap(({ at }, run) => makeActions(rng, run, at))
  return { workflows: [...workflows, functionOf(CHILD_FUNCTION, CHILD_PROGRAM, 1)], runs, actions }
}

const functionOf = (name: string, program: Op[], attempts: number): SimWorkflow => {
  const definition = workflow(name, { retry: { attempts, delay: "1s" } }, () => null)
  const compiled = functionWorkflow(name, definition)
  return { compiled, nodes: [newSimNode(0, compiled.nodes[0]!)], rates: { fail: 0, hang: 0, odd: 0, slow: 0 }, program }
}

/** The task that `call` steps call. Its jobs are declared as those of a program. */
export const childTask = (handler: (input: ChildInput) => Promise<string>) =>
  task(CHILD_TASK, { retry: { attempts: 2, delay: "500ms" } }, (input) => handler(input as ChildInput))

export type ChildInput = { parent: string; step: string; fails: boolean }

export const jobResult = (parent: string, step: string): string => `job of ${step} of ${parent}`

// -- programs ------------------------------------------------------------------------------------------------------------------------

const makeSequence = (rng: Rng, depth: number, isParallel: boolean): Op[] =>
  Array.from({ length: rng.int(1, MAX_OPS) }, () => makeOp(rng, depth, isParallel))

const makeOp = (rng: Rng, depth: number, isParallel: boolean): Op => {
  const id = rng.int(0, 1_000_000_000)
  const inner = ["all", "guard", "catch"] as const
  if (depth < MAX_DEPTH && rng.chance(0.3)) {
    const kind = rng.pick(inner)
    return { id, kind, ops: makeSequence(rng, depth + 1, isParallel || kind === "all") }
  }
  return { id, ...makeStep(rng, isParallel) }
}

const makeStep = (rng: Rng, isParallel: boolean): StepOp => {
  const kind = rng.pick(["run", "run", "run", "tx", "sleep", "wait", "wait", "call", "child", "now"] as const)
  switch (kind) {
    case "run":
      return { kind, isLarge: rng.chance(0.15), ...makeTries(rng) }
    case "tx":
      return { kind, ...makeTries(rng) }
    case "sleep":
      return { kind, ms: rng.pick([0, rng.int(1, 500), rng.int(500, 10_000), rng.int(10_000, 120_000)]) }
    case "wait":
      return { kind, timeoutMs: rng.chance(0.4) ? rng.int(1, 20_000) : null }
    case "call":
      return { kind, fails: rng.chance(0.15) }
    case "child":
      return { kind }
    case "now":
      // A value is recorded with the next step: only in a sequence is it clear which one that is.
      return isParallel ? { kind: "sleep", ms: 10 } : { kind }
    default:
      return kind satisfies never
  }
}

const makeTries = (rng: Rng): Tries => {
  const attempts = rng.int(1, 4)
  const failures = rng.chance(0.6) ? 0 : rng.chance(0.8) ? rng.int(0, attempts - 1) : attempts
  const workMs = rng.pick([0, rng.int(1, 100), rng.int(100, 3000), rng.int(1000, 15_000)])
  return { workMs, attempts, failures, delayMs: rng.pick([1, 200, 3000]) }
}

/**
 * Returns the name of a step, and the signal of a wait. Steps at the same time have names of their own, and waits with a timeout, which
 * may take the signal of another wait.
 */
export const stepName = (op: Op, isParallel: boolean): string => {
  if (op.kind === "wait") return isParallel || op.timeoutMs !== null ? `${SHARED_SIGNAL} ${op.id}` : SHARED_SIGNAL
  return op.kind === "now" ? op.kind : `${op.kind} ${op.id}`
}

// -- runs ----------------------------------------------------------------------------------------------------------------------------

const makeRun = (rng: Rng, label: string, workflow: number, programs: readonly Op[][]): RunSpec => {
  const at = rng.int(0, rng.pick([100, SPAN_MS]))
  const signals = waitsOf(programs[workflow]!, false).flatMap(({ name, timeoutMs }) => makeSignals(rng, label, name, timeoutMs))
  const params = { x: rng.int(0, 5), g: "f" }
  return { label, workflow, at, params, priority: null, key: `key of ${label}`, private: null, signals }
}

const waitsOf = (ops: readonly Op[], isParallel: boolean): { name: string; timeoutMs: number | null }[] =>
  ops.flatMap((op) => {
    if ("ops" in op) return waitsOf(op.ops, isParallel || op.kind === "all")
    return op.kind === "wait" ? [{ name: stepName(op, isParallel), timeoutMs: op.timeoutMs }] : []
  })

/** A wait without a timeout gets a signal for sure; some are sent twice, or before anything waits for them. */
const makeSignals = (rng: Rng, label: string, name: string, timeoutMs: number | null): SignalSpec[] => {
  if (timeoutMs !== null && rng.chance(0.5)) return []
  const payload = `signal ${label} ${rng.int(0, 1_000_000)}`
  const key = rng.chance(0.6) ? payload : null
  const sent = (): SignalSpec => ({ at: rng.pick([0, rng.int(0, 5000), rng.int(0, 60_000)]), name, key, payload })
  return key !== null && rng.chance(0.4) ? [sent(), sent()] : [sent()]
}

const makeActions = (rng: Rng, run: number, start: number): UserAction[] => {
  const actions: UserAction[] = []
  const at = (): number => start + rng.int(0, rng.pick([2000, 30_000]))
  if (rng.chance(0.3)) actions.push({ at: at(), run, kind: "cancel" })
  if (rng.chance(0.15)) actions.push({ at: at(), run, kind: "pause", forMs: rng.int(1, 10_000) })
  for (let i = rng.chance(0.5) ? rng.int(1, 3) : 0; i > 0; i--) {
    actions.push({
      at: at() + rng.int(0, 30_000),
      run,
      kind: "retry",
      how: rng.pick(["failed", "instance"]),
      pick: rng.int(0, 1000),
    })
  }
  return actions
}
