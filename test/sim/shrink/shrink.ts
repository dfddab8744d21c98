// Shrinks a failing world: applies one reduction after the other, and keeps each with which the world still violates the same invariant.

import type { CompiledWorkflow } from "../../../src/core/model/workflow.ts"
import type { Op } from "../scenario/functions.ts"
import type { Scenario } from "../scenario/scenario.ts"
import { type Reduction, reductionsOf } from "./reductions.ts"

export interface ShrinkOptions<Failure> {
  /** Returns a new copy of the world. */
  create: () => Scenario
  /** Plays a world; null: it does not fail in the same way. */
  play: (scenario: Scenario) => Promise<Failure | null>
  maxTries: number
}

export interface Shrunk<Failure> {
  reductions: Reduction[]
  failure: Failure
  tries: number
}

/** Returns null if the world does not fail. */
export const shrink = async <Failure>({ create, play, maxTries }: ShrinkOptions<Failure>): Promise<Shrunk<Failure> | null> => {
  const kept: Reduction[] = []
  const world = (more: readonly Reduction[] = []): Scenario => {
    const scenario = create()
    for (const { apply } of [...kept, ...more]) apply(scenario)
    return scenario
  }
  let failure = await play(world())
  if (failure === null) return null
  let tries = 0
  // A smaller world may allow a reduction that failed before: the search ends after a pass that changes nothing.
  for (let isChanged = true; isChanged;) {
    isChanged = false
    for (let position = 0; tries < maxTries;) {
      const reduction = reductionsOf(world())[position]
      if (reduction === undefined) break
      tries += 1
      const found = await play(world([reduction]))
      if (found === null) {
        position += 1
        continue
      }
      failure = found
      kept.push(reduction)
      isChanged = true
    }
  }
  return { reductions: kept, failure, tries }
}

/** Returns lines that describe a world. */
export const describeWorld = ({ workflows, runs, engines, actions, faults, leases, ...rest }: Scenario): string[] => [
  ...workflows.flatMap(({ compiled, nodes, program }) => [
    `workflow ${[compiled.name, ...startsOf(compiled)].join(", ")}:`,
    ...(program === undefined ? [] : describeProgram(program, "  ")),
    ...nodes.map(({ node, waitPlan }) => {
      const upstream = node.upstream.map((up) => nodes[up]!.node.name).join(", ")
      const parts = [
        node.executor === "fake" ? "" : node.executor,
        upstream === "" ? "" : `after ${upstream}`,
        node.rule === "all_success" ? "" : node.rule,
        node.fan === undefined ? "" : "fan-out",
        node.if === undefined ? "" : `if ${node.if}`,
        waitPlan?.kind === "defer" ? "deferred" : "",
        node.retry.maxAttempts === 1 ? "" : `${node.retry.maxAttempts} attempts`,
      ]
      return `  ${[node.name, ...parts.filter((part) => part !== "")].join(", ")}`
    }),
  ]),
  ...runs.map(({ label, workflow, at }) => `run ${label} of ${workflows[workflow]!.compiled.name} at ${at} ms`),
  ...runs.flatMap(({ label, signals = [] }) =>
    signals.map(({ name, key, at }) => `signal ${name}${key === null ? "" : " with a key"} to ${label} from ${at} ms on`),
  ),
  ...actions.map(({ kind, run, at }) => `${kind} of ${runs[run]!.label} at ${at} ms`),
  ...engines.map(
    ({ name, concurrency, restarts, skewMs }) =>
      `engine ${name}, concurrency ${concurrency}, restarts: ${restarts.length}, clock ahead by ${skewMs} ms`,
  ),
  `faults: ${JSON.stringify(faults)}${leases ? ", with leases" : ""}`,
  ...rest.clockSteps.map(({ at, ms }) => `the clock is set by ${ms} ms at ${at} ms`),
  ...rest.jobs.map(({ at, jobs }) => `${jobs.length} jobs at ${at} ms`),
  ...rest.jobActions.map(({ at, id, kind }) => `${kind} of job ${id} at ${at} ms`),
  ...rest.queueChanges.map(
    ({ at, forMs, queue, settings }) => `${JSON.stringify(settings)} for the queue ${queue} at ${at} ms, for ${forMs} ms`,
  ),
  ...(rest.retention === null ? [] : [`retention: ${JSON.stringify(rest.retention)}`]),
]

const describeProgram = (ops: readonly Op[], indent: string): string[] =>
  ops.flatMap((op) => {
    if ("ops" in op) return [`${indent}${op.kind}:`, ...describeProgram(op.ops, `${indent}  `)]
    const { kind, ...rest } = op
    return [`${indent}step ${kind} ${JSON.stringify(rest)}`]
  })

/** Returns what starts runs of a workflow besides users. */
const startsOf = ({ schedules, triggers = [] }: CompiledWorkflow): string[] => [
  ...schedules.map(({ overlap, catchup }) => `scheduled (${overlap}, ${catchup})`),
  ...triggers.flatMap((trigger) => ("after" in trigger ? [`after ${trigger.when} of ${trigger.after.join(", ")}`] : [])),
]
