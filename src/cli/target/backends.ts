// What the command line takes from the composition root: backends by contract, opened when a command needs them.

import type { Config } from "../../config.ts"
import type { Clock, Fetch, Random } from "../../core/model/ports.ts"
import type { EngineOptions } from "../../engine/ports.ts"
import type { Executor } from "../../executors/executor.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"

export type EngineParts = Pick<EngineOptions, "executors" | "evaluator" | "secret"> & { fetch: Fetch }

export interface HandlerFiles {
  queues: ReadonlyMap<string, string>
  functions: ReadonlyMap<string, string>
}

export interface Backends {
  clock: Clock
  random: Random
  /** Opened and migrated. null: there is no database yet, and `create` was not asked for. */
  openStore(config: Config, options: { create: boolean }): Promise<ServerStore | null>
  openObjects(config: Config): Promise<ObjectStore>
  engineParts(config: Config, objects: ObjectStore): Promise<EngineParts>
  /** Which queues a file has handlers of, and which functions it registers. Rejects with what is wrong with the file. */
  handlerNames(file: string): Promise<{ queues: string[]; functions: string[] }>
  /** Run them by the executor `node`: the file by queue, and by function. */
  handlerExecutors(files: HandlerFiles, node: Executor): Promise<Executor[]>
  /** How this process is known to others, and whether the one so described still lives. */
  processIdentity(): string
  processAlive(identity: string): boolean
  inspect(config: Config): Promise<Inspection>
}

/** What `ork doctor` asks of the backends. */
export interface Inspection {
  spawn: { helper: string; reason: string | null; isolation: string; cgroups: string } | { problem: string }
  sqlite: string
  /** What executors find here. none: it is not here, and only tasks that name it need it. */
  surroundings: { name: string; state: "ok" | "warn" | "none"; detail: string }[]
}

/** What every command gets. */
export interface Context {
  backends: Backends
  env: { [name: string]: string | undefined }
  cwd: string
  version(): string
  stdout: NodeJS.WriteStream
  stderr: NodeJS.WriteStream
}
