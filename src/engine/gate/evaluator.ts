// Evaluates expressions in bounded time. What is bounded by its own input is evaluated on the spot, without a promise; the rest
// goes to a worker thread, which is ended and replaced when an evaluation takes too long. A user's expression can so fail a
// task, but never hold up the server. What goes wrong is thrown (or rejected with) as an ExpressionError.

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

/** Everything at once and on the spot, unbounded: for simulations and tests. */
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
      const far = [...new Set(expressionsOf(template).filter((source) => !isBounded(source)))]
      return far.length === 0 ? render(template, scope) : renderFar(template, scope, far, thread)
    },
    stop: () => thread.stop(),
  }
}

const renderFar = async (template: Template, scope: ExpressionScope, far: string[], thread: EvaluatorThread): Promise<Json> => {
  const values = await Promise.all(far.map(async (source) => [source, await thread.evaluate(source, scope)] as const))
  const known = new Map(values)
  return render(template, scope, (source) => (known.has(source) ? known.get(source)! : evaluate(source, scope)))
}

interface Pending extends EvaluateRequest {
  resolve(value: Json): void
  reject(error: Error): void
}

const WORKER = new URL(import.meta.url.endsWith(".ts") ? "./evaluator-worker.ts" : "./evaluator-worker.js", import.meta.url)

const PATIENCE = 20

/** CPU time that a worker has used from now on; where Node cannot tell (before 22.18), as if it had never stopped. */
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
    await this.#drop()
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

  /** The limit is on the thread's own work: on a busy machine it gets more time, up to `PATIENCE` times as much. */
  #watch(pending: Pending, usedMs: () => Promise<number>, afterMs: number, waitedMs: number): void {
    const look = async (): Promise<void> => {
      const left = this.#timeoutMs - (await usedMs())
      if (this.#current !== pending) return
      const waited = waitedMs + afterMs
      if (left >= 1 && waited < PATIENCE * this.#timeoutMs) this.#watch(pending, usedMs, left, waited)
      else this.#fail(`it took longer than ${this.#timeoutMs} ms`)
    }
    // An answer that arrived while this thread was busy itself counts: messages first.
    this.#timer = setTimeout(() => setImmediate(() => void look()), afterMs)
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
      const pending = this.#settle()
      if (pending === null) return
      if ("value" in reply) pending.resolve(reply.value)
      else pending.reject(this.#asError(pending.source, reply.error))
    }
    this.#next()
  }

  /** The message names the expression already. */
  #asError(source: string, message: string): ExpressionError {
    const error = new ExpressionError(source, "")
    error.message = message
    return error
  }

  #fail(reason: string): void {
    const pending = this.#settle() ?? this.#queue.shift() ?? null
    void this.#drop()
    pending?.reject(new ExpressionError(pending.source, reason))
    if (!this.#stopped) this.#next()
  }

  #settle(): Pending | null {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    const pending = this.#current
    this.#current = null
    // An idle worker keeps no process alive.
    if (this.#queue.length === 0) this.#worker?.unref()
    return pending
  }

  async #drop(): Promise<void> {
    const worker = this.#worker
    this.#worker = null
    this.#ready = false
    await worker?.terminate()
  }
}
