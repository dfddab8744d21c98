// One life of an engine: its own clock, store connection and executors, from a start to a crash or an orderly end. A new life
// begins under the same name with the next number.

import type { RunId } from "../../../src/core/model/ids.ts"
import { queueLane } from "../../../src/core/routing/lanes.ts"
import type { Clock } from "../../../src/core/model/ports.ts"
import { Engine } from "../../../src/engine/engine.ts"
import { inlineEvaluator } from "../../../src/engine/gate/evaluator.ts"
import type { Evaluator, Logger } from "../../../src/engine/ports.ts"
import type { Store } from "../../../src/store/contract/store.ts"
import { openDoor } from "./faulty-store.ts"
import { FakeExecutor } from "./fake-executor.ts"
import { Rng } from "../rng.ts"
import type { Incarnation } from "../checks/attempt-log.ts"
import type { World } from "../simulation.ts"

export interface Life extends Incarnation {
  clock: Clock
  store: Store
  subject: Engine
  /** `starting` until start() has resolved. */
  started: boolean
  /** Store calls under way. */
  calls: number
  /** The last advance failed: the engine waits before it goes on. */
  failing: boolean
  /** Something was committed in its name since its last turn, which it does not know of. */
  unaware: boolean
  wake: () => void
  /** The id under which it last asked for work. */
  holder: string | null
  /** Requests of users that it has not answered. */
  requests: Set<() => void>
  /** Runs whose end was awaited here, and whether it was told. */
  awaited: Map<string, boolean>
}

const QUIET: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined }

export const beginLife = async (world: World, engine: number, number: number): Promise<Life> => {
  const spec = world.scenario.engines[engine]!
  const name = `${spec.name}#${number}`
  const random = new Rng("engine", world.scenario.seed, name)
  const life = {
    name,
    engine,
    alive: true,
    draining: false,
    started: false,
    calls: 0,
    failing: false,
    unaware: false,
    wake: () => undefined,
    holder: null,
    requests: new Set(),
    awaited: new Map(),
  } as unknown as Life
  life.clock = world.clock.of(life)
  const opened = await world.database.openStore({
    clock: life.clock,
    random: new Rng("store", world.scenario.seed, name),
    isDead: (holder) => world.isDead(holder),
  })
  life.store = opened
  const executor = new FakeExecutor(world, life, life.clock, world.objects)
  life.subject = new Engine({
    store: openDoor(world, life, life.store),
    objects: world.objects,
    executors: new Map([[executor.name, executor]]),
    evaluator: evaluatorOf(world, name),
    clock: life.clock,
    random,
    log: QUIET,
    holder: { kind: spec.privateRun === null ? "server" : "run", name: spec.name, process: name },
    privateRun: spec.privateRun === null ? null : (world.runIdOf(spec.privateRun) as RunId),
    lanes: [queueLane("default", [])],
    concurrency: spec.concurrency,
    maxFanout: 100_000,
    maxOutputBytes: 1 << 20,
    graceMs: 1000,
    dataDir: "data",
    secret: () => null,
    findWorkflow: (workflow) =>
      world.during(async () => {
        const found = await opened.getWorkflow(workflow)
        return found === null ? null : { workflowId: found.id, versionId: found.versionId }
      }),
  })
  return life
}

const evaluatorOf = (world: World, name: string): Evaluator => {
  const rng = new Rng("evaluator", world.scenario.seed, name)
  const trouble = (): void => {
    if (!world.calm && rng.chance(world.scenario.faults.evaluator)) throw new Error("the evaluator went away")
  }
  return {
    evaluate: (source, scope) => {
      trouble()
      return inlineEvaluator.evaluate(source, scope)
    },
    render: (template, scope) => {
      trouble()
      return inlineEvaluator.render(template, scope)
    },
    stop: () => inlineEvaluator.stop(),
  }
}
