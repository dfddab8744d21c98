// Settings of a worker that runs inside a user's program.

import type { AnyFunction } from "../core/model/function.ts"
import type { Logger } from "../engine/ports.ts"
import type { Duration } from "./duration.ts"

export interface WorkerSettings {
  /** Address of the server, or several that are tried in turn. Default: ORK_URL, or http://127.0.0.1:4000. */
  server?: string | readonly string[] | undefined
  /** Key with the scope `worker`. Default: ORK_API_KEY. */
  apiKey?: string | undefined
  /** Functions by name, in addition to those that were passed to `register`. */
  functions?: { readonly [name: string]: AnyFunction }
  /** Functions by queue. Each runs the jobs of its queue that have no task, with their payload. */
  handlers?: { readonly [queue: string]: AnyFunction }
  /** Queues whose tasks may call the functions. Default: `default`. */
  queues?: readonly string[]
  /** Labels of the worker. */
  labels?: readonly string[]
  /** Limit of concurrent functions. Default: 100. */
  capacity?: number
  /** Name of the worker in lists. Default: host and process. */
  name?: string
  /** Milliseconds that running functions get when the worker is stopped. Default: 10,000. */
  graceMs?: number
  /** Time for which functions may block the event loop. Then other workers take over the work of this one. Default: 1 minute. */
  stallLimit?: Duration
  /** Folder for logs that are not sent yet. Default: a temporary folder. */
  dataDir?: string
  /** Default: warnings and errors on stderr. */
  log?: Logger
  /** Aborts the start, or stops the worker. */
  signal?: AbortSignal
}

export interface RunningWorker {
  readonly name: string
  /** Address of the server that the worker is registered with. */
  readonly server: string
  /** Claims nothing more. Resolves when running functions have ended, or have had their grace. */
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}
