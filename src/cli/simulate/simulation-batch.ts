// Simulates a workflow: a run without faults first, which shows the tasks that faults can hit, then one run for each seed.

import { FUNCTION_EXECUTOR } from "../../core/model/function.ts"
import { type CompiledWorkflow, GROUP_EXECUTOR, type Node, REMOTE_EXECUTORS } from "../../core/model/workflow.ts"
import { seededRandom } from "../../sdk/test-kit/seeded-random.ts"
import { InputError } from "../terminal/errors.ts"
import { planFaults, type Target } from "./fault-plan.ts"
import { type Finding, findingsOf } from "./findings.ts"
import { type Scenario, Simulation, type SimulatedRun } from "./simulation.ts"

export interface PlayedRun {
  run: SimulatedRun
  findings: Finding[]
}

export class SimulationBatch implements AsyncDisposable {
  readonly #workflow: CompiledWorkflow
  readonly #simulation: Simulation
  readonly #targets: Target[]
  readonly #spanMs: number

  private constructor({ workflow }: Scenario, simulation: Simulation, baseline: SimulatedRun) {
    this.#workflow = workflow
    this.#simulation = simulation
    this.#targets = targetsOf(workflow, baseline)
    this.#spanMs = baseline.durationMs
  }

  /** Throws an InputError if the workflow does not succeed without faults. */
  static async prepare(scenario: Scenario): Promise<SimulationBatch> {
    const simulation = new Simulation(scenario)
    try {
      const baseline = await simulation.play(0, [])
      if (baseline.status === "success") return new SimulationBatch(scenario, simulation, baseline)
      const failed = baseline.tasks.find(({ status, error }) => status === "failed" && error !== null)
      const reason = failed === undefined ? (baseline.error ?? "") : `${failed.name}: ${failed.error}`
      throw new InputError(
        `${scenario.workflow.name} ends as ${baseline.status} without any fault: ${reason}; write a case that succeeds, with the outputs of its tasks, into NAME.ork-test.yaml beside it`,
      )
    } catch (error) {
      await simulation[Symbol.asyncDispose]()
      throw error
    }
  }

  async play(seed: number): Promise<PlayedRun> {
    const faults = planFaults(seededRandom(`faults of ${seed}`), this.#targets, this.#spanMs)
    const run = await this.#simulation.play(seed, faults)
    return { run, findings: findingsOf(this.#workflow, run) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#simulation[Symbol.asyncDispose]()
  }
}

/** Returns the attempts of the run without faults, and the tasks that ran only after failures. */
const targetsOf = ({ nodes }: CompiledWorkflow, { attempts, tasks }: SimulatedRun): Target[] => {
  const played = [...new Map(attempts.map(({ key, task }) => [key, task]))]
  const seen = new Set(tasks.filter((row) => row.attempts > 0).map(({ name }) => name))
  const others = nodes.filter(({ name, executor }) => executor !== GROUP_EXECUTOR && executor !== "sleep" && !seen.has(name))
  const all = [...played, ...others.map(({ name }) => [name, name] as const)]
  return all.map(([key, task]) =>
    targetOf(
      key,
      nodes.find(({ name }) => name === task)!,
    ),
  )
}

const targetOf = (key: string, { executor }: Node): Target => ({
  key,
  kind: executor === "approval" || executor === "wait" ? "wait" : "task",
  // Another server continues to watch remote work. A task that starts a workflow only waits.
  onWorker: executor === FUNCTION_EXECUTOR || !(REMOTE_EXECUTORS.includes(executor) || executor === "workflow"),
})
