// Plays runs of a workflow one after the other: the real engine in virtual time, with mocks that suffer the faults of a seed. A run
// depends on its seed alone, not on the runs before it.

import type { Random } from "../../core/model/ports.ts"
import { parseDuration } from "../../core/values/quantities.ts"
import { isRunClosed, type RunStatus } from "../../core/model/status.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import type { GraphDefinition } from "../../sdk/graph/graph.ts"
import { type MockContext, openKit, type TaskState, type TestOrk } from "../../sdk/test.ts"
import { seededRandom } from "../../sdk/test-kit/seeded-random.ts"
import { mockableWorkflow } from "../cases/mockable-workflow.ts"
import type { TestCase } from "../cases/read-cases.ts"
import { mockOf, untilEnd } from "../cases/run-case.ts"
import { keyOf } from "../cases/task-keys.ts"
import type { Fault } from "./fault-plan.ts"
import { type AttemptRecord, AttemptSimulator, type StoryLine, type BaselineAttempt } from "./attempt-simulator.ts"

/** The workflow that is simulated, its params, and the results of its tasks without faults. */
export interface Scenario {
  definition: GraphDefinition<JsonObject, JsonObject>
  workflow: CompiledWorkflow
  params: JsonObject
  /** Outputs and durations of tasks. */
  mocks: TestCase["mocks"]
  /** Outputs of tasks without a mock, by name. */
  outputs: ReadonlyMap<string, Json>
}

/** The record of a run. Times are milliseconds after its start. */
export interface SimulatedRun {
  seed: number
  faults: Fault[]
  status: RunStatus
  error: string | null
  tasks: TaskState[]
  attempts: AttemptRecord[]
  story: StoryLine[]
  durationMs: number
}

/** Runs in one engine: a new engine costs as much as several runs, and the database of an old one grows. */
const RUNS_PER_ENGINE = 100
const LIMIT_MS = 30 * 86_400_000

export class Simulation implements AsyncDisposable {
  readonly #scenario: Scenario
  #kit: TestOrk | null = null
  #runsOfKit = 0
  #simulator: AttemptSimulator | null = null
  /** Random numbers of the engine, those of the seed of the run. */
  #random = seededRandom(0)

  constructor(scenario: Scenario) {
    this.#scenario = scenario
  }

  async play(seed: number, faults: Fault[]): Promise<SimulatedRun> {
    this.#random = seededRandom(seed)
    const { definition, params } = this.#scenario
    const kit = await this.#openKit()
    const startedAt = kit.now().getTime()
    const elapsed = (): number => kit.now().getTime() - startedAt
    const simulator = new AttemptSimulator({ seed, faults, elapsed, usual: (context, key) => this.#usual(context, key) })
    this.#simulator = simulator
    const run = await kit.enqueue(definition, params)
    await injectTimedFaults(kit, run.id, simulator, elapsed)
    const tasks = await untilEnd(kit, run.id, startedAt + LIMIT_MS)
    const { status, error } = (await kit.get(run.id))!
    const ends = tasks.map(({ finishedAt }) => (finishedAt === null ? 0 : finishedAt.getTime() - startedAt))
    // A run that has not ended would be part of the next ones.
    if (!isRunClosed(status as RunStatus)) await this.#closeKit()
    const { attempts, story } = simulator
    return { seed, faults, status: status as RunStatus, error, tasks, attempts, story, durationMs: Math.max(0, ...ends) }
  }

  async #openKit(): Promise<TestOrk> {
    if (this.#runsOfKit++ >= RUNS_PER_ENGINE) await this.#closeKit()
    const { definition, workflow } = this.#scenario
    const random: Random = { next: () => this.#random.next(), hex128: () => this.#random.hex128() }
    return (this.#kit ??= await openKit({
      run: [definition],
      random,
      otherwise: () => (_, context) => this.#simulator!.attempt(context, keyOf(workflow, context.task, context.path)),
      prepare: simulatedWorkflow,
    }))
  }

  async #closeKit(): Promise<void> {
    await this.#kit?.stop()
    this.#kit = null
    this.#runsOfKit = 1
  }

  #usual({ task }: MockContext, key: string): BaselineAttempt {
    const { workflow, outputs } = this.#scenario
    const { output, duration } = mockOf(this.#scenario, key, { task, attempt: Infinity })
    const node = workflow.nodes.find(({ name }) => name === task)!
    return {
      output: output ?? outputs.get(task) ?? null,
      error: ["a simulated failure", ...retryTexts(node)].join(": "),
      usualMs: duration === undefined ? null : parseDuration(duration),
      timeoutMs: node.timeoutMs,
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#closeKit()
  }
}

/** Injects the faults that concern the whole run, each at its time. */
const injectTimedFaults = async (
  kit: TestOrk,
  runId: string,
  simulator: AttemptSimulator,
  elapsed: () => number,
): Promise<void> => {
  for (const fault of simulator.timedFaults) {
    await kit.advance(fault.atMs - elapsed())
    const run = (await kit.get(runId))!
    const isClosed = isRunClosed(run.status as RunStatus)
    if (fault.kind === "cancel" && !isClosed) {
      simulator.note("fault: a user cancels the run")
      await run.cancel()
    } else if (fault.kind === "restart" && !(isClosed && simulator.isIdle)) {
      simulator.crash()
      await kit.crash()
    }
  }
}

/** Leaves out what would let one run change another: schedules and caches. */
const simulatedWorkflow = (workflow: CompiledWorkflow): CompiledWorkflow => {
  const { nodes, ...played } = mockableWorkflow(workflow, () => true)
  return { ...played, schedules: [], nodes: nodes.map(withoutCache) }
}

const withoutCache = (node: Node): Node => {
  const { cache: _, ...rest } = node
  return rest
}

/** Returns the texts of errors after which the task is retried. */
const retryTexts = ({ retryOn = [] }: Node): string[] => retryOn.filter((pattern) => typeof pattern === "string")
