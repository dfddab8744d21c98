// One process that runs an engine: it has a clock, a store and an executor of its own, from its start to its crash or shutdown. The
// next process of the same engine has the next number.

import type { RunId } from "../../../src/core/model/ids.ts"
import type { Clock } from "../../../src/core/model/ports.ts"
import { queueLane } from "../../../src/core/routing/lanes.ts"
import { Engine } from "../../../src/engine/engine.ts"
import { inlineEvaluator } from "../../../src/engine/gate/evaluator.ts"
import type { Evaluator, Logger } from "../../../src/engine/ports.ts"
import type { ServerStore } from "../../../src/store/contract/server-store.ts"
import { Rng } from "../rng.ts"
import type { EngineSpec, Scenario } from "../scenario/scenario.ts"
import type { Simulation } from "../simulation.ts"
import { FakeExecutor } from "./fake-executor.ts"
import { faultyStore } from "./faulty-store.ts"

const SILENT: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined }

export class EngineProcess {
  readonly name: string
  readonly engineIndex: number
  readonly clock: Clock
  store!: ServerStore
  engine!: Engine
  alive = true
  /** `engine.start()` has resolved. */
  started = false
  draining = false
  /** Store calls in flight. */
  calls = 0
  /** The last `advance` failed: the engine waits before it calls again. */
  failing = false
  /** A repeated batch was committed in the name of this process, which has not called `advance` since. */
  hasUnseenCommits = false
  wake: () => void = () => undefined
  /** The holder id under which it last claimed; null before. */
  holder: string | null = null
  /** Functions that abandon the user requests that it has not replied to. */
  readonly openRequests = new Set<() => void>()
  /** Runs whose end a user awaits here, and whether the engine has reported it. */
  readonly awaitedRuns = new Map<string, boolean>()

  private constructor(simulation: Simulation, engineIndex: number, name: string) {
    this.name = name
    this.engineIndex = engineIndex
    this.clock = simulation.clock.forOwner(this)
  }

  /** Opens the store and creates the engine, which the caller starts. */
  static async create(simulation: Simulation, engineIndex: number, number: number): Promise<EngineProcess> {
    const { seed, engines } = simulation.scenario
    const spec = engines[engineIndex]!
    const process = new EngineProcess(simulation, engineIndex, `${spec.name}#${number}`)
    process.store = await simulation.database.openStore({
      clock: process.clock,
      random: new Rng("store", seed, process.name),
      isDead: (holder) => simulation.isDead(holder),
    })
    process.engine = createEngine(simulation, process, spec)
    return process
  }
}

const createEngine = (simulation: Simulation, process: EngineProcess, spec: EngineSpec): Engine => {
  const { name, clock, store } = process
  const executor = new FakeExecutor(simulation, process)
  return new Engine({
    store: faultyStore(simulation, process),
    objects: simulation.objects,
    folders: simulation.folders,
    executors: new Map([[executor.name, executor]]),
    evaluator: faultyEvaluator(simulation, name),
    clock,
    random: new Rng("engine", simulation.scenario.seed, name),
    log: SILENT,
    holder: { kind: spec.privateRun === null ? "server" : "run", name: spec.name, process: name },
    privateRun: spec.privateRun === null ? null : (simulation.runIdOf(spec.privateRun) as RunId),
    lanes: lanesOf(simulation.scenario),
    concurrency: spec.concurrency,
    maxFanout: 100_000,
    // Above the gathered outputs of the largest scenarios, which the checks expect to succeed.
    maxOutputBytes: 1 << 26,
    graceMs: 1000,
    dataDir: "data",
    secret: () => null,
    findWorkflow: (workflow) =>
      simulation.trackResult(async () => {
        const found = await store.getWorkflow(workflow)
        return found === null ? null : { workflowId: found.id, versionId: found.versionId }
      }),
  })
}

/** Returns the lanes of all tasks. */
const lanesOf = ({ workflows }: Scenario): string[] => [
  ...new Set(workflows.flatMap(({ nodes }) => nodes.map(({ node }) => queueLane(node.queue, [])))),
]

const faultyEvaluator = (simulation: Simulation, name: string): Evaluator => {
  const { seed, faults } = simulation.scenario
  const rng = new Rng("evaluator", seed, name)
  const mayFail = (): void => {
    if (!simulation.faultsOver && rng.chance(faults.evaluator)) throw new Error("the evaluator went away")
  }
  return {
    evaluate: (source, scope) => {
      mayFail()
      return inlineEvaluator.evaluate(source, scope)
    },
    render: (template, scope) => {
      mayFail()
      return inlineEvaluator.render(template, scope)
    },
    check: (schema, text) => inlineEvaluator.check(schema, text),
    stop: () => inlineEvaluator.stop(),
  }
}
