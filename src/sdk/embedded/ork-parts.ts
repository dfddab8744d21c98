// The parts that `Ork` runs on. The types of the package refer to this file, which therefore names no part of the engine that depends on a
// bundled library.

import type { ProgramExecutor } from "../durable/program-executor.ts"
import type { Clock, Random } from "../../core/model/ports.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { ConditionProbes, Evaluator, Logger } from "../../engine/ports.ts"
import type { RetentionLimits } from "../../engine/services/housekeeping.ts"
import type { Executor } from "../../executors/executor.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"

export interface OrkParts {
  store: ServerStore
  objects: ObjectStore
  evaluator: Evaluator
  clock: Clock
  random: Random
  log: Logger
  /** Identity of this process, for other processes on the same file. */
  process: string
  name: string
  /** `server`: it also reaps dead processes every few seconds. */
  holder: "server" | "run"
  concurrency: number
  /** See `stallLimit`. Absent: the event loop is not watched. */
  stallMs?: number
  version: string
  /** Returns the executors of the engine, given that of functions. Default: only that one, and only its work is claimed. */
  executors?: (functions: ProgramExecutor) => readonly Executor[]
  /** Absent: this process removes nothing of the past. */
  retention?: RetentionLimits
  /** No other process uses the database: this one sees every end of work by itself. Default: false. */
  singleProcess?: boolean
  /** Checks the conditions of `wait` tasks. Default: other engines of the store do. */
  conditions?: ConditionProbes
  /** Changes a graph before it is stored. */
  prepare?: (workflow: CompiledWorkflow) => CompiledWorkflow
}
