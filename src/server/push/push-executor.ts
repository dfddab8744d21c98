// Sends process tasks to workers that listen (`ork worker --listen`), in rotation, and waits for the results that they post back. The
// request is signed with the server's key; the result carries the token of its attempt, and is acknowledged after its commit.
// push-watch.ts asks the worker meanwhile whether it still has the task: a lost task is retried elsewhere. A worker that cannot be asked
// has until the timeout of the task.

import { createHmac } from "node:crypto"
import { NOT_SUPPORTED, PushWatch } from "./push-watch.ts"
import { sleep } from "../../sleep.ts"
import type { PushedResult, PushReceiver, PushWorker } from "../../api/http/ports.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import { isDeferral } from "../../core/rules/changes/defer.ts"
import type { Clock, Random } from "../../core/model/ports.ts"
import { pushExternalId } from "../../core/model/push-worker.ts"
import { WORKER_LEASE_MS } from "../../core/settings/leases.ts"
import { openLog } from "../../objects/logs/log-sink.ts"
import { maskText } from "../../objects/mask.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { aliveReply } from "../../protocol/api/workers.ts"
import { proofOf } from "../../protocol/wire/push-proof.ts"
import { equalText } from "../../protocol/wire/signature.ts"
import { shortInputText } from "../../executors/input.ts"
import { argvOf, type Assignment, type Executor, type LaunchContext, type StopReason } from "../../executors/executor.ts"

export interface PushOptions {
  /** Addresses without a trailing slash. */
  workers: readonly string[]
  /** Signs the requests. */
  key: string
  /** Returns the address of this server. */
  callback(): string
  objects: ObjectStore
  clock: Clock
  random: Random
  fetch: typeof fetch
  /** Default: 10 s. */
  leaseMs?: number
}

/** Part of a lease after which a worker that is not asked about a task stops it, before the task is retried elsewhere. */
const WORKER_LEASE_PART = 0.8
/** A worker that does not accept a task in this time is skipped. */
const REPLY_TIMEOUT_MS = 5000
const FIRST_DELAY_MS = 250
const MAX_DELAY_MS = 5000
/** Time for the result of a stopped task, beyond its grace. */
const STOP_SLACK_MS = 2000

/** Larger inputs are rejected: signing them would block the server. */
const MAX_INPUT_BYTES = 16 * 1024 * 1024
const TOO_LARGE =
  "its input has more than 16 MiB, which push workers do not accept: pass an address instead, or use a worker that claims its tasks (ork worker)"

const NO_ARTIFACTS = "push workers neither store nor get artifacts: use a worker that claims its tasks (ork worker)"

/** Statuses of a worker that does not have a path. */
const NO_SUCH_PATH: readonly number[] = [404, 405, 501]
/** Time for a worker to show that it can be reached. */
const PROBE_MS = 1000

type Ending = { result: PushedResult } | { lost: string } | "stopped"

class PushedTask {
  readonly assignment: Assignment
  /** New for each worker that the task is sent to: one that seemed to reject it cannot report for another. */
  token = ""
  /** The report of the result, which a repeated request joins; null before it and after a failure. */
  delivery: Promise<boolean> | null = null
  /** Resolves with whether the store applied the result. */
  readonly committed = Promise.withResolvers<boolean>()
  readonly #end = Promise.withResolvers<Ending>()
  #ended = false

  constructor(assignment: Assignment) {
    this.assignment = assignment
  }

  get ending(): Promise<Ending> {
    return this.#end.promise
  }

  get ended(): boolean {
    return this.#ended
  }

  /** Returns false if the task has ended before. */
  end(ending: Ending): boolean {
    if (this.#ended) return false
    this.#ended = true
    this.#end.resolve(ending)
    return true
  }
}

export class PushExecutor implements Executor, PushReceiver {
  readonly name = "process"
  readonly #options: PushOptions
  readonly #secret: string
  /** By task id: a task has one running attempt at a time. */
  readonly #tasks = new Map<string, PushedTask>()
  /** Tasks whose result is not committed yet, by attempt id. */
  readonly #uncommitted = new Map<string, PushedTask>()
  readonly #lastSeen = new Map<string, number>()
  readonly #running = new Map<string, number>()
  readonly #withoutAlive = new Set<string>()
  readonly #watch: PushWatch
  readonly #leaseMs: number
  #dispatches = 0

  constructor(options: PushOptions) {
    this.#options = options
    const { clock, leaseMs = WORKER_LEASE_MS } = options
    this.#leaseMs = leaseMs
    this.#watch = new PushWatch({ clock, leaseMs, ask: (worker, tokens) => this.#ask(worker, tokens) })
    this.#secret = options.random.hex128() + options.random.hex128()
  }

  hasToken(token: string): boolean {
    return [...this.#tasks.values()].some((task) => equalText(task.token, token))
  }

  /** Resolves after the commit. */
  async receive(result: PushedResult): Promise<boolean> {
    const task = this.#tasks.get(result.taskId)
    if (task === undefined || !equalText(task.token, result.token)) return false
    task.delivery ??= this.#deliver(task, result).catch((error: unknown) => {
      task.delivery = null
      throw error
    })
    return await task.delivery
  }

  async #deliver(task: PushedTask, result: PushedResult): Promise<boolean> {
    await this.#storeLog(task.assignment, result.log)
    return task.end({ result }) && (await task.committed.promise)
  }

  committed(attemptId: string, applied: Promise<boolean>): void {
    const task = this.#uncommitted.get(attemptId)
    this.#uncommitted.delete(attemptId)
    if (task === undefined) applied.catch(() => {})
    else task.committed.resolve(applied)
  }

  async list(): Promise<PushWorker[]> {
    return await Promise.all(
      this.#options.workers.map(async (address) => {
        const alive = await this.#isReachable(address)
        return { address, alive, lastSeenAt: this.#lastSeen.get(address) ?? null, running: this.#running.get(address) ?? 0 }
      }),
    )
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { signal } = context
    const { clock } = this.#options
    const task = new PushedTask(assignment)
    this.#tasks.set(assignment.taskId, task)
    try {
      const rejected = (error: string): AttemptResult => ({
        state: "failed",
        startedAt: null,
        finishedAt: clock.now(),
        error,
        retryable: false,
      })
      if (assignment.artifacts !== undefined || assignment.upstreamArtifacts !== undefined) return rejected(NO_ARTIFACTS)
      const input = await shortInputText(assignment, MAX_INPUT_BYTES)
      if (input === null) return rejected(TOO_LARGE)
      const worker = await this.#dispatch(task, input, signal)
      if (worker === null) return stopped(signal.reason as StopReason, { startedAt: null, finishedAt: clock.now() })
      return await this.#follow(task, worker, context)
    } finally {
      if (this.#tasks.get(assignment.taskId) === task) this.#tasks.delete(assignment.taskId)
    }
  }

  /** Waits for the end of a task that the worker has accepted. */
  async #follow(task: PushedTask, worker: string, { signal, started }: LaunchContext): Promise<AttemptResult> {
    const { clock } = this.#options
    const startedAt = clock.now()
    started({ at: startedAt, externalId: pushExternalId(worker, null) })
    const endWatch = this.#watch.add(worker, task.token, (lost) => task.end({ lost }))
    this.#count(worker, 1)
    void this.#stopOnAbort(task, worker, signal)
    const ending = await task.ending
    endWatch()
    this.#count(worker, -1)
    const base = { startedAt, finishedAt: clock.now(), externalId: pushExternalId(worker, null) }
    if (ending === "stopped") return this.#withoutResult(signal.reason as StopReason, base, worker)
    if ("lost" in ending) {
      // The worker may only be unreachable: it must not continue the task.
      void this.#stop(worker, task)
      return signal.aborted ? stopped(signal.reason as StopReason, base) : { ...base, state: "lost", error: ending.lost }
    }
    this.#uncommitted.set(task.assignment.attemptId, task)
    const externalId = pushExternalId(worker, ending.result.workerId)
    return toResult(task.assignment, ending.result, { ...base, externalId }, signal)
  }

  #count(worker: string, by: 1 | -1): void {
    this.#running.set(worker, (this.#running.get(worker) ?? 0) + by)
  }

  /**
   * Sends the task to one worker after the other until one accepts it, which a result also shows. Returns that worker; null when
   * stopped before.
   */
  async #dispatch(task: PushedTask, input: string, signal: AbortSignal): Promise<string | null> {
    const { workers } = this.#options
    const { assignment } = task
    const body = this.#requestBody(assignment)
    for (let round = 0; !signal.aborted; round++) {
      for (let tries = 0; tries < workers.length && !signal.aborted; tries++) {
        const worker = workers[this.#dispatches++ % workers.length]!
        task.token = this.#token(assignment.attemptId, this.#dispatches)
        const fields = JSON.stringify({ ...body, token: task.token })
        const request = `${fields.slice(0, -1)},"input":${input}}`
        const reply = await Promise.race([this.#post(worker, "/execute", request), task.ending])
        if (task.ended || (reply !== null && isAccepted(reply))) return worker
        // The worker may have accepted the task, and its reply was lost.
        void this.#stop(worker, task)
      }
      await sleep(this.#options.clock, Math.min(FIRST_DELAY_MS * 2 ** round, MAX_DELAY_MS), signal)
    }
    return null
  }

  /** Returns the request without the task's input, which may be large. */
  #requestBody(assignment: Assignment): object {
    const { command } = assignment
    return {
      task_instance_id: assignment.taskId,
      run_id: assignment.runId,
      task_id: assignment.task,
      workflow: assignment.workflow,
      path: assignment.path,
      parallel_index: assignment.parallelIndex,
      parallel_count: assignment.parallelCount,
      logical_date: assignment.logicalDate,
      command:
        command === null ? "" : "shell" in command && command.interpreter === undefined ? command.shell : argvOf(command),
      attempt: assignment.attempt,
      callback_url: `${this.#options.callback()}/internal/task-result`,
      env: { ...assignment.env, ...assignment.callback?.() },
      timeout_ms: assignment.node.timeoutMs,
      output_format: assignment.node.outputFormat,
      lease_ms: this.#leaseMs * WORKER_LEASE_PART,
    }
  }

  /** Returns the tokens that the worker does not know; null without a valid reply. */
  async #ask(worker: string, tokens: string[]): Promise<string[] | typeof NOT_SUPPORTED | null> {
    const reply = await this.#post(worker, "/alive", JSON.stringify({ tokens }))
    if (reply !== null && NO_SUCH_PATH.includes(reply.status)) {
      this.#withoutAlive.add(worker)
      return NOT_SUPPORTED
    }
    const parsed = reply?.status === 200 ? aliveReply.safeParse(reply.body) : null
    if (parsed?.success !== true) return null
    this.#withoutAlive.delete(worker)
    return parsed.data.unknown
  }

  /** Returns null if no worker responds. `body` is null if it is not JSON. */
  async #post(worker: string, path: string, body: string): Promise<Reply | null> {
    const { key, clock, fetch } = this.#options
    const headers = { "content-type": "application/json", ...proofOf(key, { path, body }, clock.now()) }
    try {
      const signal = AbortSignal.timeout(Math.min(REPLY_TIMEOUT_MS, this.#leaseMs))
      const response = await fetch(worker + path, { method: "POST", headers, body, signal, redirect: "manual" })
      this.#lastSeen.set(worker, clock.now())
      return { status: response.status, body: await response.json().catch(() => null) }
    } catch {
      return null
    }
  }

  /** Returns whether the worker responds, whatever its response. */
  async #isReachable(worker: string): Promise<boolean> {
    const { clock, fetch } = this.#options
    try {
      const response = await fetch(`${worker}/health`, { signal: AbortSignal.timeout(PROBE_MS), redirect: "manual" })
      await response.body?.cancel()
      this.#lastSeen.set(worker, clock.now())
      return true
    } catch {
      return false
    }
  }

  /** Stops the task when the signal aborts. Ends it without a result when that takes longer than the grace. */
  async #stopOnAbort(task: PushedTask, worker: string, signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve()
      else signal.addEventListener("abort", () => resolve(), { once: true })
    })
    await this.#stop(worker, task)
    this.#options.clock.after(task.assignment.graceMs + STOP_SLACK_MS, () => task.end("stopped"))
  }

  async #stop(worker: string, { assignment, token }: PushedTask): Promise<void> {
    await this.#post(worker, "/stop", JSON.stringify({ task_instance_id: assignment.taskId, token }))
  }

  /** Returns the result of a stopped task without a result. After a timeout, a worker that could be asked counts as lost. */
  #withoutResult(reason: StopReason, base: Base, worker: string): AttemptResult {
    return reason === "timeout" && !this.#withoutAlive.has(worker)
      ? { ...base, state: "lost", error: `lost: no result came from ${worker} within the timeout` }
      : stopped(reason, base)
  }

  async #storeLog(assignment: Assignment, text: string): Promise<void> {
    if (text === "") return
    const log = openLog(this.#options.objects, assignment.prefix, assignment)
    await log.write("stdout", text)
    await log.close()
  }

  #token(attemptId: string, dispatch: number): string {
    return createHmac("sha256", this.#secret).update(`${attemptId}.${dispatch}`).digest("base64url")
  }
}

interface Reply {
  status: number
  body: unknown
}

const isAccepted = (reply: Reply | Ending): boolean =>
  typeof reply === "object" && "status" in reply && reply.status >= 200 && reply.status < 300

type Base = Pick<AttemptResult, "startedAt" | "finishedAt" | "externalId">

const STATES = { cancel: "cancelled", timeout: "timeout", shutdown: "lost", lost: "lost" } as const

const stopped = (reason: StopReason, base: Base): AttemptResult => ({
  ...base,
  state: STATES[reason],
  error: `stopped: ${reason}`,
})

const toResult = (assignment: Assignment, result: PushedResult, base: Base, signal: AbortSignal): AttemptResult => {
  const ended = { ...base, ...(result.exitCode !== null && { exitCode: result.exitCode }) }
  if (result.state === "success") {
    if (isDeferral(result.output))
      return { ...ended, state: "failed", error: "a push worker cannot defer its work", retryable: false }
    return { ...ended, state: "success", output: { inline: result.output } }
  }
  if (signal.aborted) return stopped(signal.reason as StopReason, ended)
  return { ...ended, state: result.state, error: maskText(result.error ?? result.state, assignment.secrets) }
}
