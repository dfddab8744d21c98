// One process that runs an engine: it has a clock, a store and an executor of its own, from its start to its crash or shutdown. The
// next process of the same engine has the next number.

import { join } from "node:path"
import type { RunId } from "../../../src/core/model/ids.ts"
import type { Clock } from "../../../src/core/model/ports.ts"
import { isRunClosed, type RunStatus } from "../../../src/core/model/status.ts"
import type { WorkerCapabilities } from "../../../src/core/routing/capabilities.ts"
import { handlerLane, localLane, restrictedLane } from "../../../src/core/routing/lanes.ts"
import { Engine } from "../../../src/engine/engine.ts"
import { inlineEvaluator } from "../../../src/engine/gate/evaluator.ts"
import type { Evaluator } from "../../../src/engine/ports.ts"
import { JobService } from "../../../src/engine/services/jobs.ts"
import type { Executor } from "../../../src/executors/executor.ts"
import type { ServerStore } from "../../../src/store/contract/server-store.ts"
import { Rng } from "../rng.ts"
import { CHILD_TASK } from "../scenario/functions.ts"
import { JOB_QUEUE } from "../scenario/jobs.ts"
import type { EngineSpec, Scenario } from "../scenario/scenario.ts"
import type { Simulation } from "../simulation.ts"
import { ProcessFolders } from "./process-folders.ts"
import { fakeConditions } from "./fake-conditions.ts"
import { DurableFunctions } from "./durable-functions.ts"
import { FakeExecutor } from "./fake-executor.ts"
import { FakeHandler } from "./fake-handler.ts"
import { faultyStore } from "./faulty-store.ts"
import { Services } from "./services.ts"
import { SILENT } from "./silent-log.ts"

export class EngineProcess {
  readonly name: string
  readonly engineIndex: number
  readonly clock: Clock
  /** Shared by all processes of the engine. */
  readonly dataDir: string
  readonly folders: ProcessFolders
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
  /** Called when another process has committed something. */
  readonly wakes: (() => void)[] = []
  /** Those of a server; `ork run` has none. */
  services: Services | null = null
  jobs: JobService | null = null
  /** The store with its faults. */
  faultyStore!: ServerStore
  /** The holder id under which it last claimed; null before. */
  holder: string | null = null
  /** The holder id that it registered last; null before. */
  lease: string | null = null
  /** Functions that abandon the user requests that it has not replied to. */
  readonly openRequests = new Set<() => void>()
  /** Runs whose end a user awaits here, and whether the engine has reported it. */
  readonly awaitedRuns = new Map<string, boolean>()

  private constructor(simulation: Simulation, engineIndex: number, name: string) {
    this.name = name
    this.engineIndex = engineIndex
    const spec = simulation.scenario.engines[engineIndex]!
    this.clock = simulation.clock.forOwner(this, spec.skewMs)
    this.dataDir = join(simulation.dataDir, spec.name)
    this.folders = new ProcessFolders(simulation, this.dataDir)
  }

  /** Opens the store and creates the engine, which the caller starts. */
  static async create(simulation: Simulation, engineIndex: number, number: number): Promise<EngineProcess> {
    const { seed, engines } = simulation.scenario
    const spec = engines[engineIndex]!
    const process = new EngineProcess(simulation, engineIndex, `${spec.name}#${number}`)
    process.store = await simulation.database.openStore({
      clock: simulation.clock.forOwner(process),
      random: new Rng("store", seed, process.name),
      isDead: (holder) => simulation.isDead(holder),
    })
    const store = faultyStore(simulation, process)
    process.faultyStore = store
    process.engine = createEngine(simulation, process, spec, store)
    process.engine.onEvent(({ type, status, runId }) => {
      if (type === "run" && isRunClosed(status as RunStatus)) process.folders.remove(runId)
    })
    if (spec.privateRun !== null) return process
    process.services = new Services(simulation, process, store)
    const wake = (): void => process.engine.wake()
    process.jobs = new JobService({ store, clock: process.clock, objects: simulation.objects, log: SILENT, wake })
    return process
  }
}

const createEngine = (simulation: Simulation, process: EngineProcess, spec: EngineSpec, faulty: ServerStore): Engine => {
  const { name, clock, store } = process
  const functions = functionsOf(simulation.scenario)
  const executors: Executor[] = [new FakeExecutor(simulation, process), new FakeHandler(simulation, process)]
  if (functions.length > 0) executors.push(new DurableFunctions(simulation, process, faulty))
  const capabilities: WorkerCapabilities = {
    queues: "all",
    labels: [],
    handlers: [JOB_QUEUE],
    functions,
    capacity: spec.concurrency,
    version: "",
  }
  const kind = spec.privateRun === null ? "server" : "run"
  return new Engine({
    store: faulty,
    objects: simulation.objects,
    folders: process.folders,
    executors: new Map(executors.map((executor) => [executor.name, executor])),
    evaluator: faultyEvaluator(simulation, name),
    conditions: fakeConditions(simulation, name),
    clock,
    random: new Rng("engine", simulation.scenario.seed, name),
    log: SILENT,
    holder: { kind, name: spec.name, process: name, ...(kind === "server" && functions.length > 0 && { capabilities }) },
    lanes:
      spec.privateRun === null ? lanesOf(simulation.scenario) : { privateRun: simulation.runIdOf(spec.privateRun) as RunId },
    concurrency: spec.concurrency,
    maxFanout: 100_000,
    // Above the gathered outputs of the largest scenarios, which the checks expect to succeed.
    maxOutputBytes: 1 << 26,
    graceMs: 1000,
    dataDir: process.dataDir,
    secret: () => null,
    findWorkflow: (workflow) =>
      simulation.trackResult(async () => {
        const found = await store.getWorkflow(workflow)
        return found === null ? null : { workflowId: found.id, versionId: found.versionId }
      }),
  })
}

/** Returns the lanes of all tasks and jobs. */
const lanesOf = ({ workflows, jobs }: Scenario): string[] => [
  ...(jobs.length === 0 ? [] : [handlerLane(JOB_QUEUE)]),
  ...new Set(workflows.flatMap(({ nodes }) => nodes.map(({ node }) => localLane(SHARED_RUN, node)))),
  ...(functionsOf({ workflows }).length === 0 ? [] : [restrictedLane("default", CHILD_TASK, [])]),
]

const SHARED_RUN = { id: "", private: false }

/** Returns the names of the durable functions, and of the task that they call. */
const functionsOf = ({ workflows }: Pick<Scenario, "workflows">): string[] => {
  const names = workflows.flatMap(({ compiled, program }) => (program === undefined ? [] : [compiled.name]))
  return names.length === 0 ? [] : [...names, CHILD_TASK]
}

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
