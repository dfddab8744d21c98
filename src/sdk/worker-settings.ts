// What a program says of the worker that it holds.

import type { AnyFunction } from "../core/model/function.ts"

export interface WorkerLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export interface WorkerSettings {
  /** One address, or several that are tried in turn. ORK_URL, else http://127.0.0.1:4000. */
  server?: string | readonly string[] | undefined
  /** A key with the scope `worker`. ORK_API_KEY. */
  apiKey?: string | undefined
  /** By the names that tasks call them by; beside those that were given to `register`. */
  functions?: { readonly [name: string]: AnyFunction }
  /** By queue: run the jobs of it that have no task of their own, with their payload. */
  handlers?: { readonly [queue: string]: AnyFunction }
  /** Queues whose tasks may call the functions; `default` by default. */
  queues?: readonly string[]
  /** That it has. */
  labels?: readonly string[]
  /** Functions at once; 16 by default. */
  capacity?: number
  /** How it is called in lists; host and process by default. */
  name?: string
  /** Milliseconds that running functions get when the worker is stopped; 10,000 by default. */
  graceMs?: number
  /** For logs on their way; a temporary folder by default. */
  dataDir?: string
  /** What it tells; warnings and errors on stderr by default. */
  log?: WorkerLog
  /** Gives up on starting, and stops it afterwards. */
  signal?: AbortSignal
}

export interface RunningWorker {
  readonly name: string
  /** The server that it was registered at. */
  readonly server: string
  /** Takes nothing more; resolves when what ran has ended, or has had its grace. */
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}
