// The environment of every command. The composition root (backends.ts) provides the backends; a command opens the ones that it needs.

import type { Terminal } from "../terminal/output.ts"
import type { Config } from "../../config.ts"
import type { Clock, Fetch, Random } from "../../core/model/ports.ts"
import type { ConditionProbes, EngineOptions } from "../../engine/ports.ts"
import type { Executor } from "../../executors/executor.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Secrets } from "../../secrets/secrets.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"

export type EngineParts = Pick<EngineOptions, "executors" | "evaluator" | "secret"> & {
  fetch: Fetch
  conditions: ConditionProbes
  /** Returns what confines tasks; null with `sandbox: off`. */
  protections(): Promise<Protections | null>
}

/** Which protections of Ork against its tasks are active, and which are not and why. */
export interface Protections {
  active: string[]
  missing: string[]
}

/** Files of `--handlers`: by queue for job handlers, by name for registered functions. */
export interface HandlerFiles {
  queues: ReadonlyMap<string, string>
  functions: ReadonlyMap<string, string>
}

/** Use of an engine. The confinement of its tasks depends on it. */
export interface EngineUse {
  /** The data folder as configured, which tasks do not see; null: there is nothing to hide. */
  folder: string | null
  /** A server or worker: it runs the tasks of others, who get a user of their own when Ork runs as root. */
  service: boolean
  /** The folder of definitions that the server deploys (`--dir`). */
  served?: string | null
}

export interface Backends {
  clock: Clock
  random: Random
  /** Opens the database, and migrates it unless `migrate` is false. Returns null if there is none and `create` is false. */
  openStore(config: Pick<Config, "databaseUrl">, options: { create: boolean; migrate?: false }): Promise<ServerStore | null>
  openObjects(config: Pick<Config, "objectStore">): Promise<ObjectStore>
  /** Opens a bucket that a workflow names. Rejects if its endpoint is none that may get the credentials of Ork. */
  openBucket(config: Pick<Config, "objectStore" | "httpAllow">, address: string): Promise<ObjectStore>
  openSecrets(config: Config, where: Pick<Context, "env" | "cwd">): Promise<Pick<Secrets, "find">>
  engineParts(config: Config, objects: ObjectStore, use: EngineUse): Promise<EngineParts>
  /** Returns the queues that a file has handlers for and the functions that it registers. Rejects if the file cannot be loaded. */
  handlerNames(file: string): Promise<{ queues: string[]; functions: string[] }>
  /** Creates executors that run handlers and functions by means of the executor `node`. */
  handlerExecutors(files: HandlerFiles, node: Executor): Promise<Executor[]>
  /** Returns a text that identifies this process to other processes of the machine. */
  processIdentity(): string
  processAlive(identity: string): boolean
  inspect(config: Config): Promise<Inspection>
}

/** Facts about this machine that `ork doctor` shows. */
export interface Inspection {
  spawn:
    | {
        helper: string
        reason: string | null
        isolation: string
        cgroups: string
        protections: Protections | null
      }
    | { problem: string }
  sqlite: string
  /** Tools that executors use. `none`: not installed, and only tasks that use it need it. */
  tools: { name: string; state: "ok" | "warn" | "none"; detail: string }[]
}

export interface Context extends Terminal {
  backends: Backends
  cwd: string
  version(): string
  /** Returns standard input. A function, because most commands do not read it. */
  stdin(): NodeJS.ReadStream
}
