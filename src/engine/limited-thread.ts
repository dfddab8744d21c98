// A worker thread that answers one request at a time within limits of time and memory. When a request exceeds them, the thread is ended,
// the request fails, and the next one starts a new thread: so no request can block or crash the server.

import { Worker } from "node:worker_threads"

export interface ThreadOptions {
  /** Path of the module without its extension. It sends "ready" once it is loaded, then one reply for each message. */
  module: URL
  /** Limit of the CPU time of one request. */
  timeoutMs: number
  maxHeapMb: number
}

/** A request exceeded its limits, or the thread has stopped. */
export class LimitExceeded extends Error {}

interface Pending<Request, Reply> {
  request: Request
  /** Limit of its CPU time. */
  timeoutMs: number
  resolve(reply: Reply): void
  reject(error: LimitExceeded): void
}

/** On a busy machine a request may take this many times its limit of CPU time. */
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

export class LimitedThread<Request, Reply extends object> {
  readonly #options: ThreadOptions
  readonly #queue: Pending<Request, Reply>[] = []
  #worker: Worker | null = null
  #ready = false
  #current: Pending<Request, Reply> | null = null
  #timer: NodeJS.Timeout | null = null
  #stopped = false

  constructor(options: ThreadOptions) {
    this.#options = options
  }

  /** Rejects with a `LimitExceeded` only. `moreMs`: CPU time beyond that of every request. */
  call(request: Request, moreMs = 0): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (this.#stopped) return reject(new LimitExceeded("the evaluator has stopped"))
      this.#queue.push({ request, timeoutMs: this.#options.timeoutMs + Math.ceil(moreMs), resolve, reject })
      this.#next()
    })
  }

  async stop(): Promise<void> {
    this.#stopped = true
    const left = this.#current === null ? this.#queue.splice(0) : [this.#current, ...this.#queue.splice(0)]
    for (const { reject } of left) reject(new LimitExceeded("the evaluator has stopped"))
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
    this.#worker.postMessage(pending.request)
    this.#watch(pending, cpuMeter(this.#worker), pending.timeoutMs, 0)
  }

  /** Limits the CPU time of a request. `afterMs`: time until the next check. */
  #watch(pending: Pending<Request, Reply>, usedMs: () => Promise<number>, afterMs: number, waitedMs: number): void {
    const { timeoutMs } = pending
    const check = async (): Promise<void> => {
      const left = timeoutMs - (await usedMs())
      if (this.#current !== pending) return
      const waited = waitedMs + afterMs
      if (left >= 1 && waited < MAX_SLOWDOWN * timeoutMs) this.#watch(pending, usedMs, left, waited)
      else this.#fail(`it took longer than ${timeoutMs} ms`)
    }
    // Handles messages first: the reply may have arrived while this thread was busy.
    this.#timer = setTimeout(() => setImmediate(() => void check()), afterMs)
  }

  #start(): Worker {
    const { module, maxHeapMb } = this.#options
    const worker = new Worker(module, {
      resourceLimits: { maxOldGenerationSizeMb: maxHeapMb },
      env: {},
      stdout: false,
      stderr: false,
    })
    worker.on("message", (reply: "ready" | Reply) => {
      if (this.#worker === worker) this.#receive(reply)
    })
    worker.on("error", (error: Error & { code?: string }) => {
      if (this.#worker !== worker) return
      const isMemory = error.code === "ERR_WORKER_OUT_OF_MEMORY"
      this.#fail(isMemory ? `it needed more than ${maxHeapMb} MB of memory` : `it could not be evaluated: ${error.message}`)
    })
    return worker
  }

  #receive(reply: "ready" | Reply): void {
    if (reply === "ready") this.#ready = true
    else this.#endCurrent()?.resolve(reply)
    this.#next()
  }

  #fail(reason: string): void {
    const pending = this.#endCurrent() ?? this.#queue.shift() ?? null
    void this.#terminate()
    pending?.reject(new LimitExceeded(reason))
    if (!this.#stopped) this.#next()
  }

  #endCurrent(): Pending<Request, Reply> | null {
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

/** Returns the address of a module next to another one, as source or built. */
export const moduleNextTo = (parent: string, name: string): URL =>
  new URL(`${name}${parent.endsWith(".ts") ? ".ts" : ".js"}`, parent)
