// Evaluates expressions in bounded time. Expressions whose cost is bounded by their input are evaluated synchronously; others in a worker
// thread, which is replaced when an evaluation takes too long. So an expression can fail its task, but never block the server. Throws,
// or rejects with, an ExpressionError.

import { Worker } from "node:worker_threads"
import type { EvaluateReply, EvaluateRequest } from "./evaluator-worker.ts"
import type { Evaluator } from "../ports.ts"
import {
  evaluate,
  ExpressionError,
  expressionsOf,
  isBounded,
  narrowScope,
  parseExpression,
  render,
  type ExpressionScope,
} from "../../core/expressions/expressions.ts"
import type { Json } from "../../core/model/json.ts"
import type { Template } from "../../core/model/workflow.ts"

/** Evaluates everything synchronously and without a limit: for simulations and tests. */
export const inlineEvaluator: Evaluator = {
  evaluate,
  render: (template, scope) => render(template, scope),
  stop: async () => {},
}

export const createEvaluator = ({ timeoutMs = 100 }: { timeoutMs?: number } = {}): Evaluator => {
  const thread = new EvaluatorThread(timeoutMs)
  const evaluateOne = (source: string, scope: ExpressionScope): Json | Promise<Json> =>
    isBounded(source) ? evaluate(source, scope) : thread.evaluate(source, scope)
  return {
    evaluate: evaluateOne,
    render: (template, scope) => {
      const unbounded = [...new Set(expressionsOf(template).filter((source) => !isBounded(source)))]
      return unbounded.length === 0 ? render(template, scope) : renderUnbounded(template, scope, unbounded, thread)
    },
    stop: () => thread.stop(),
  }
}

/** Evaluates the unbounded expressions of a template in the thread, and the others here. */
const renderUnbounded = async (
  template: Template,
  scope: ExpressionScope,
  unbounded: string[],
  thread: EvaluatorThread,
): Promise<Json> => {
  const values = await Promise.all(unbounded.map(async (source) => [source, await thread.evaluate(source, scope)] as const))
  const evaluated = new Map(values)
  return render(template, scope, (source) => (evaluated.has(source) ? evaluated.get(source)! : evaluate(source, scope)))
}

interface Pending extends EvaluateRequest {
  resolve(value: Json): void
  reject(error: Error): void
}

const WORKER = new URL(import.meta.url.endsWith(".ts") ? "./evaluator-worker.ts" : "./evaluator-worker.js", import.meta.url)

/** On a busy machine an evaluation may take this many times its limit of CPU time. */
const MAX_SLOWDOWN = 20

/** Returns a meter of the CPU milliseconds that a worker uses from now on; Infinity where Node does not measure them (before 22.18). */
const cpuMeter = (worker: Worker): (() => Promise<number>) => {
  if (typeof worker.cpuUsage !== "function") return () => Promise.resolve(Infinity)
  const before = worker.cpuUsage().catch(() => undefined)
  return async () => {
    const used = await worker.cpuUsage(await before).catch(() => undefined)
    return used === undefined ? Infinity : (used.user + used.system) / 1000
  }
}

class EvaluatorThread {
  readonly #timeoutMs: number
  readonly #queue: Pending[] = []
  #worker: Worker | null = null
  #ready = false
  #current: Pending | null = null
  #timer: NodeJS.Timeout | null = null
  #stopped = false

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  evaluate(source: string, scope: ExpressionScope): Promise<Json> {
    return new Promise((resolve, reject) => {
      if (this.#stopped) return reject(new ExpressionError(source, "the evaluator has stopped"))
      this.#queue.push({ source, scope: narrowScope(scope, parseExpression(source).refs), resolve, reject })
      this.#next()
    })
  }

  async stop(): Promise<void> {
    this.#stopped = true
    const left = this.#current === null ? this.#queue.splice(0) : [this.#current, ...this.#queue.splice(0)]
    for (const pending of left) pending.reject(new ExpressionError(pending.source, "the evaluator has stopped"))
    this.#current = null
    await this.#terminate()
  }

  #next(): void {
    if (this.#current !== null || this.#queue.length === 0) return
    this.#worker ??= this.#start()
    this.#worker.ref()
    if (!this.#ready) return
    const pending = this.#queue.shift()!
    this.#current = pending
    this.#worker.postMessage({ source: pending.source, scope: pending.scope } satisfies EvaluateRequest)
    this.#watch(pending, cpuMeter(this.#worker), this.#timeoutMs, 0)
  }

  /** Limits the CPU time of an evaluation. `afterMs`: time until the next check. */
  #watch(pending: Pending, usedMs: () => Promise<number>, afterMs: number, waitedMs: number): void {
    const check = async (): Promise<void> => {
      const left = this.#timeoutMs - (await usedMs())
      if (this.#current !== pending) return
      const waited = waitedMs + afterMs
      if (left >= 1 && waited < MAX_SLOWDOWN * this.#timeoutMs) this.#watch(pending, usedMs, left, waited)
      else this.#fail(`it took longer than ${this.#timeoutMs} ms`)
    }
    // Handles messages first: the result may have arrived while this thread was busy.
    this.#timer = setTimeout(() => setImmediate(() => void check()), afterMs)
  }

  #start(): Worker {
    const worker = new Worker(WORKER, {
      resourceLimits: { maxOldGenerationSizeMb: 256 },
      env: {},
      stdout: false,
      stderr: false,
    })
    worker.on("message", (reply: EvaluateReply) => {
      if (this.#worker === worker) this.#receive(reply)
    })
    worker.on("error", (error: Error) => {
      if (this.#worker !== worker) return
      this.#fail(`it could not be evaluated: ${error.message}`)
    })
    return worker
  }

  #receive(reply: EvaluateReply): void {
    if (reply === "ready") {
      this.#ready = true
    } else {
      const pending = this.#endCurrent()
      if (pending === null) return
      if ("value" in reply) pending.resolve(reply.value)
      else pending.reject(this.#asError(pending.source, reply.error))
    }
    this.#next()
  }

  /** Keeps the message of the thread, which names the expression already. */
  #asError(source: string, message: string): ExpressionError {
    const error = new ExpressionError(source, "")
    error.message = message
    return error
  }

  #fail(reason: string): void {
    const pending = this.#endCurrent() ?? this.#queue.shift() ?? null
    void this.#terminate()
    pending?.reject(new ExpressionError(pending.source, reason))
    if (!this.#stopped) this.#next()
  }

  #endCurrent(): Pending | null {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    const pending = this.#current
    this.#current = null
    // An idle worker must not keep the process alive.
    if (this.#queue.length === 0) this.#worker?.unref()
    return pending
  }

  async #terminate(): Promise<void> {
    const worker = this.#worker
    this.#worker = null
    this.#ready = false
    await worker?.terminate()
  }
}
