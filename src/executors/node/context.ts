// The context that a function receives, in a worker process and in a program that contains a worker.

import { format } from "node:util"
import type { FunctionContext, FunctionLog } from "../../core/model/function.ts"
import type { Json } from "../../core/values/json.ts"
import type { LogStream } from "../../objects/logs/log-index.ts"
import type { TaskInfo } from "../pool/frames.ts"

/** Minimum interval between progress reports. */
const PROGRESS_MS = 100

interface Update {
  fraction?: number
  details?: Json
}

/** Receives what a function reports and writes, and provides its variables and its abort signal when the function uses them. */
export interface ContextPorts {
  readonly env: { readonly [name: string]: string }
  readonly signal: AbortSignal
  progress(update: Update): void
  write(stream: LogStream, text: string): void
}

export const createLog = (write: ContextPorts["write"]): FunctionLog => {
  const to =
    (stream: LogStream, level: string) =>
    (...values: unknown[]): void =>
      write(stream, `${level}${format(...values)}\n`)
  const info = to("stdout", "")
  return Object.assign((...values: unknown[]) => info(...values), {
    debug: to("stdout", "debug: "),
    info,
    warn: to("stderr", "warning: "),
    error: to("stderr", "error: "),
  })
}

export class TaskContext implements FunctionContext {
  readonly runId: string
  readonly taskId: string
  readonly taskName: string
  readonly workflowName: string
  readonly attempt: number
  readonly parallelIndex: number | null
  readonly parallelCount: number | null
  readonly logicalDate: string | null
  readonly #ports: ContextPorts
  #env: { readonly [name: string]: string } | null = null
  #log: FunctionLog | null = null
  #pending: Update | null = null
  #timer: NodeJS.Timeout | null = null
  #sentAt = Number.NEGATIVE_INFINITY

  constructor(task: TaskInfo, ports: ContextPorts) {
    this.runId = task.runId
    this.taskId = task.taskId
    this.taskName = task.taskName
    this.workflowName = task.workflowName
    this.attempt = task.attempt
    this.parallelIndex = task.parallelIndex
    this.parallelCount = task.parallelCount
    this.logicalDate = task.logicalDate
    this.#ports = ports
  }

  get env(): { readonly [name: string]: string } {
    return (this.#env ??= this.#ports.env)
  }

  get log(): FunctionLog {
    return (this.#log ??= createLog((stream, text) => this.#ports.write(stream, text)))
  }

  get signal(): AbortSignal {
    return this.#ports.signal
  }

  // Getters that return bound functions, so that a function may destructure the context: `({ progress }) => …`.
  get heartbeat(): FunctionContext["heartbeat"] {
    return (details) => this.#update(details === undefined ? {} : { details })
  }

  get progress(): FunctionContext["progress"] {
    return (fraction, details) => {
      if (!(fraction >= 0 && fraction <= 1)) throw new RangeError(`progress takes a number from 0 to 1, not ${fraction}`)
      this.#update({ fraction, ...(details !== undefined && { details }) })
    }
  }

  /** Reports the last progress at the end of the task. */
  end(): void {
    this.#flush()
  }

  #update(update: Update): void {
    this.#pending = { ...this.#pending, ...update }
    const wait = this.#sentAt + PROGRESS_MS - performance.now()
    if (wait <= 0) this.#flush()
    else this.#timer ??= setTimeout(() => this.#flush(), wait)
  }

  #flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#pending === null) return
    this.#sentAt = performance.now()
    const update = this.#pending
    // Before it is sent: one that is not JSON must not be sent again.
    this.#pending = null
    this.#ports.progress(update)
  }
}

export const stopError = (): DOMException => new DOMException("the task was stopped", "AbortError")
