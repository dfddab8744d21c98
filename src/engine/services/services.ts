// The services through which the API changes anything: one entry point, which wakes the loop after every change.

import type { DefinitionThread } from "./definition-thread.ts"
import { JobService } from "./jobs.ts"
import { RunService, type RunServiceOptions } from "./runs.ts"
import { WorkflowService } from "./workflows.ts"
import type { Engine } from "../engine.ts"
import type { EngineOptions } from "../ports.ts"
import type { QueueRow, QueueSettings } from "../../store/contract/queues.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"

export interface Services {
  runs: RunService
  jobs: JobService
  /** Changes the given settings of a queue and keeps the others. */
  updateQueue(name: string, settings: Partial<QueueSettings>): Promise<QueueRow>
  workflows: WorkflowService
  externalSignals: Pick<Engine["externalSignals"], "approval" | "callback" | "isCallbackToken">
}

export interface ServicesOptions extends Pick<EngineOptions, "objects" | "evaluator" | "clock" | "random" | "log" | "dataDir"> {
  engine: RunServiceOptions["engine"] & Pick<Engine, "externalSignals">
  store: ServerStore
  definitions?: DefinitionThread
  /** Wakes whatever may have work after a commit: the loop, the polls of workers, the scheduler, the notifier. */
  wake(): void
}

export const createServices = (options: ServicesOptions): Services => ({
  runs: new RunService(options),
  jobs: new JobService(options),
  updateQueue: (name, settings) => options.store.putQueue(name, settings).finally(options.wake),
  workflows: new WorkflowService(options),
  externalSignals: options.engine.externalSignals,
})
