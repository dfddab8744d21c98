// What a function sees of its task. The signal is made when it is asked for, and with it the handler of SIGTERM: a function that
// never asked could not come to an end by it, so the signal ends its process at once.

import { format } from "node:util"
import type { FunctionContext, FunctionLog } from "../../core/function.ts"
import type { Json } from "../../core/json.ts"
import type { TaskFrame } from "../pool/frames.ts"

/** Progress goes up no more often than that. */
const PROGRESS_MS = 100

interface Update {
  fraction?: number
  details?: Json
}

const createLog = (): FunctionLog => {
  const to =
    (stream: NodeJS.WriteStream, level: string) =>
    (...said: unknown[]): void =>
      void stream.write(`${level}${format(...said)}\n`)
  const info = to(process.stdout, "")
  return Object.assign((...said: unknown[]) => info(...said), {
    debug: to(process.stdout, "debug: "),
    info,
    warn: to(process.stderr, "warning: "),
    error: to(process.stderr, "error: "),
  })
}

const log = createLog()

export class TaskContext implements FunctionContext {
  readonly runId: string
  readonly taskId: string
  readonly taskName: string
  readonly workflowName: string
  readonly attempt: number
  readonly parallelIndex: number | null
  readonly parallelCount: number | null
  readonly logicalDate: string | null
  readonly log = log
  readonly #send: (update: Update) => void
  #abort: AbortController | null = null
  #pending: Update | null = null
  #timer: NodeJS.Timeout | null = null
  #sentAt = Number.NEGATIVE_INFINITY

  constructor(facts: TaskFrame["context"], send: (update: Update) => void) {
    this.runId = facts.runId
    this.taskId = facts.taskId
    this.taskName = facts.taskName
    this.workflowName = facts.workflowName
    this.attempt = facts.attempt
    this.parallelIndex = facts.parallelIndex
    this.parallelCount = facts.parallelCount
    this.logicalDate = facts.logicalDate
    this.#send = send
  }

  get signal(): AbortSignal {
    if (this.#abort === null) {
      this.#abort = new AbortController()
      process.on("SIGTERM", this.#onTerm)
    }
    return this.#abort.signal
  }

  // Bound, so that a function may take it apart: `({ progress }) => …`.
  readonly heartbeat = (details?: Json): void => this.#update(details === undefined ? {} : { details })

  readonly progress = (fraction: number, details?: Json): void => {
    if (!(fraction >= 0 && fraction <= 1)) throw new RangeError(`progress takes a number from 0 to 1, not ${fraction}`)
    this.#update({ fraction, ...(details !== undefined && { details }) })
  }

  /** The task has ended. */
  end(): void {
    process.off("SIGTERM", this.#onTerm)
    this.#flush()
  }

  readonly #onTerm = (): void => this.#abort?.abort(new DOMException("the task was stopped", "AbortError"))

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
    this.#send(this.#pending)
    this.#pending = null
  }
}
