// What an engine is made of. `main.ts` puts real backends in; a simulation puts others.

import type { Clock, Fetch, Random, SecretSource } from "../core/model/ports.ts"
import type { Json } from "../core/model/json.ts"
import type { RunId } from "../core/model/ids.ts"
import type { AttemptResult } from "../core/model/change.ts"
import type { Node, Template } from "../core/model/workflow.ts"
import type { ExpressionScope } from "../core/expressions/expressions.ts"
import type { WorkerCapabilities } from "../core/routing/capabilities.ts"
import type { Executor } from "../executors/executor.ts"
import type { ObjectStore } from "../objects/objects.ts"
import type { Claim, Store } from "../store/contract/store.ts"

/** Evaluates expressions in bounded time: at once where that is safe, else elsewhere. */
export interface Evaluator {
  evaluate(source: string, scope: ExpressionScope): Json | Promise<Json>
  render(template: Template, scope: ExpressionScope): Json | Promise<Json>
  stop(): Promise<void>
}

export interface Logger {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Watches the engine at work, for figures and traces. Must be quick, and must not throw. */
export interface Observer {
  /** One batch was committed. */
  turn?(batch: { changes: number; claims: number; ms: number }): void
  /** Variables that an attempt gets beside its own. */
  environment?(claim: Claim): { [name: string]: string }
  attemptEnded?(claim: Claim, node: Node, result: AttemptResult): void
  /** A run was asked to stop. */
  cancelled?(): void
}

export interface EngineOptions {
  store: Store
  objects: ObjectStore
  executors: ReadonlyMap<string, Executor>
  evaluator: Evaluator
  clock: Clock
  random: Random
  log: Logger
  holder: { kind: "server" | "run"; name: string; process: string; capabilities?: WorkerCapabilities }
  /** Set: takes the tasks of this private run and no others. null: takes shared work from `lanes`. */
  privateRun: RunId | null
  lanes: string[]
  /** Attempts at once on this machine. */
  concurrency: number
  /** Attempts at once of executors whose work lives elsewhere; 1,000 when not given. */
  remoteConcurrency?: number
  maxFanout: number
  maxOutputBytes: number
  graceMs: number
  /** Run folders and upstream files lie below it. */
  dataDir: string
  secret: SecretSource
  observer?: Observer
  /** Where the API answers, for those who are to call back; null: nobody knows yet. */
  address?(): string | null
  /** Sends the requests of polls. */
  fetch?: Fetch
  /** The workflow of a task that is one; null: there is none of that name. */
  findWorkflow?(name: string, from: { workingDir: string | null }): Promise<{ workflowId: number; versionId: number } | null>
}
