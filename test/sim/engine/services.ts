// The services of a server beside its engine, as far as the world needs them: schedules, triggers and retention.

import { inlineEvaluator } from "../../../src/engine/gate/evaluator.ts"
import { Scheduler } from "../../../src/engine/services/scheduler.ts"
import { Triggers } from "../../../src/engine/services/triggers.ts"
import { Conflict } from "../../../src/store/contract/errors.ts"
import type { ServerStore } from "../../../src/store/contract/server-store.ts"
import { Rng } from "../rng.ts"
import type { Simulation } from "../simulation.ts"
import type { EngineProcess } from "./engine-process.ts"
import { RunRetention } from "./run-retention.ts"
import { SILENT } from "./silent-log.ts"

const ignoreConflict = (error: unknown): void => {
  if (!(error instanceof Conflict)) throw error
}

export class Services {
  readonly #scheduler: Scheduler | null
  readonly #triggers: Triggers | null
  readonly #retention: RunRetention

  constructor(simulation: Simulation, process: EngineProcess, store: ServerStore) {
    const { scenario } = simulation
    const { name, clock, engine } = process
    const compiled = scenario.workflows.map((workflow) => workflow.compiled)
    const random = new Rng("services", scenario.seed, name)
    const options = { store, evaluator: inlineEvaluator, clock, random, log: SILENT, wake: () => engine.wake() }
    const cancel: ConstructorParameters<typeof Scheduler>[0]["cancel"] = (runId) => engine.cancel(runId).catch(ignoreConflict)
    this.#scheduler = compiled.some(({ schedules }) => schedules.length > 0) ? new Scheduler({ ...options, cancel }) : null
    this.#triggers = compiled.some(({ triggers }) => triggers !== undefined) ? new Triggers(options) : null
    this.#retention = new RunRetention(simulation, process, store)
    engine.onEvent(({ type, status }) => {
      if (type === "run" && status === "success") this.#triggers?.wake()
    })
    engine.onRecovered(() => this.#triggers?.wake())
  }

  start(): void {
    this.#scheduler?.start()
    this.#triggers?.start()
    this.#retention.start()
  }

  stop(): void {
    void this.#scheduler?.stop()
    void this.#triggers?.stop()
    this.#retention.stop()
  }
}
