// What a function sees of its task, whether it runs in a worker process or in a program that holds a worker.

import { format } from "node:util"
import type { FunctionContext, FunctionLog } from "../../core/model/function.ts"
import type { Json } from "../../core/model/json.ts"
import type { LogStream } from "../../objects/logs/log-index.ts"
import type { TaskFacts } from "../pool/frames.ts"

/** Progress goes up no more often than that. */
const PROGRESS_MS = 100

interface Update {
  fraction?: number
  details?: Json
}

/** Where what a function says goes, and how it is told to stop. */
export interface ContextPorts {
  progress(update: Update): void
  write(stream: LogStream, text: string): void
  /** Called when the function asks for it. */
  signal(): AbortSignal
}

const createLog = (write: ContextPorts["write"]): FunctionLog => {
  const to =
    (stream: LogStream, level: string) =>
    (...said: unknown[]): void =>
      write(stream, `${level}${format(...said)}\n`)
  const info = to("stdout", "")
  return Object.assign((...said: unknown[]) => info(...said), {
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
  readonly env: { readonly [name: string]: string }
  readonly #ports: ContextPorts
  #log: FunctionLog | null = null
  #pending: Update | null = null
  #timer: NodeJS.Timeout | null = null
  #sentAt = Number.NEGATIVE_INFINITY

  constructor(facts: TaskFacts, env: { readonly [name: string]: string }, ports: ContextPorts) {
    this.runId = facts.runId
    this.taskId = facts.taskId
    this.taskName = facts.taskName
    this.workflowName = facts.workflowName
    this.attempt = facts.attempt
    this.parallelIndex = facts.parallelIndex
    this.parallelCount = facts.parallelCount
    this.logicalDate = facts.logicalDate
    this.env = env
    this.#ports = ports
  }

  get log(): FunctionLog {
    return (this.#log ??= createLog((stream, text) => this.#ports.write(stream, text)))
  }

  get signal(): AbortSignal {
    return this.#ports.signal()
  }

  // Bound, so that a function may take it apart: `({ progress }) => …`.
  readonly heartbeat = (details?: Json): void => this.#update(details === undefined ? {} : { details })

  readonly progress = (fraction: number, details?: Json): void => {
    if (!(fraction >= 0 && fraction <= 1)) throw new RangeError(`progress takes a number from 0 to 1, not ${fraction}`)
    this.#update({ fraction, ...(details !== undefined && { details }) })
  }

  /** The task has ended. */
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
    this.#ports.progress(this.#pending)
    this.#pending = null
  }
}

export const stopError = (): DOMException => new DOMException("the task was stopped", "AbortError")
