// Sends process tasks to workers that listen (`ork worker --listen`), in rotation, and waits for the results that they post back. The
// request is signed with the server's key; the result carries the token of its attempt. push-watch.ts asks the worker meanwhile
// whether it still has the task: a lost task is retried elsewhere.

import { createHmac } from "node:crypto"
import { PushWatch } from "./push-watch.ts"
import type { PushedResult, PushReceiver } from "../api/http/ports.ts"
import type { AttemptResult } from "../core/model/change.ts"
import { isDeferral } from "../core/rules/defer.ts"
import type { Clock, Random } from "../core/model/ports.ts"
import { openLog } from "../objects/logs/log-sink.ts"
import { maskText } from "../objects/mask.ts"
import type { ObjectStore } from "../objects/objects.ts"
import { aliveReply } from "../protocol/api/workers.ts"
import { proofOf } from "../protocol/wire/push-proof.ts"
import { equalText } from "../protocol/wire/signature.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../executors/executor.ts"

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
  /** Default: 15 s. */
  leaseMs?: number
}

const LEASE_MS = 15_000
/** Part of a lease after which a worker that is not asked about a task stops it, before the task is retried elsewhere. */
const WORKER_LEASE_PART = 0.8
/** A worker that does not accept a task in this time is skipped. */
const REPLY_TIMEOUT_MS = 5000
const FIRST_DELAY_MS = 250
const MAX_DELAY_MS = 5000
/** Time for the result of a stopped task, beyond its grace. */
const STOP_SLACK_MS = 2000

interface PushedTask {
  /** New for each worker that the task is sent to: one that seemed to reject it cannot report for another. */
  token: string
  resolve(result: PushedResult): void
}

export class PushExecutor implements Executor, PushReceiver {
  readonly name = "process"
  readonly #options: PushOptions
  readonly #secret: string
  readonly #tasks = new Map<string, PushedTask>()
  readonly #watch: PushWatch
  readonly #leaseMs: number
  #dispatches = 0

  constructor(options: PushOptions) {
    this.#options = options
    const { clock, leaseMs = LEASE_MS } = options
    this.#leaseMs = leaseMs
    this.#watch = new PushWatch({ clock, leaseMs, ask: (worker, tokens) => this.#ask(worker, tokens) })
    this.#secret = options.random.hex128() + options.random.hex128()
  }

  hasToken(token: string): boolean {
    return [...this.#tasks.values()].some((task) => equalText(task.token, token))
  }

  receive(result: PushedResult): boolean {
    const task = this.#tasks.get(result.taskId)
    if (task === undefined || !equalText(task.token, result.token)) return false
    task.resolve(result)
    return true
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { signal } = context
    const { clock } = this.#options
    const ended = Promise.withResolvers<PushedResult>()
    const task: PushedTask = { token: "", resolve: ended.resolve }
    // A task has one running attempt at a time.
    this.#tasks.set(assignment.taskId, task)
    let endWatch = (): void => {}
    try {
      const worker = await this.#dispatch(assignment, task, signal)
      if (worker === null) return stopped(signal.reason as StopReason, { startedAt: null, finishedAt: clock.now() })
      const startedAt = clock.now()
      context.started({ at: startedAt, externalId: worker })
      const lost = Promise.withResolvers<string>()
      endWatch = this.#watch.add(worker, task.token, lost.resolve)
      const result = await Promise.race([ended.promise, lost.promise, this.#stopped(assignment, task, worker, signal)])
      const base = { startedAt, finishedAt: clock.now(), externalId: worker }
      if (typeof result === "string") {
        // The worker may only be unreachable: it must not continue the task.
        void this.#stop(worker, assignment.taskId, task.token)
        return signal.aborted ? stopped(signal.reason as StopReason, base) : { ...base, state: "lost", error: result }
      }
      return result === null
        ? withoutResult(signal.reason as StopReason, base, worker)
        : await this.#toResult(assignment, result, base, signal)
    } finally {
      endWatch()
      if (this.#tasks.get(assignment.taskId) === task) this.#tasks.delete(assignment.taskId)
    }
  }

  /** Sends the task to one worker after the other until one accepts it. Returns that worker; null when stopped before. */
  async #dispatch(assignment: Assignment, task: PushedTask, signal: AbortSignal): Promise<string | null> {
    const { workers } = this.#options
    const body = this.#requestBody(assignment)
    for (let round = 0; !signal.aborted; round++) {
      for (let tries = 0; tries < workers.length && !signal.aborted; tries++) {
        const worker = workers[this.#dispatches++ % workers.length]!
        task.token = this.#token(assignment.attemptId, this.#dispatches)
        if ((await this.#post(worker, "/execute", { ...body, token: task.token }))?.status === 202) return worker
        // The worker may have accepted the task, and its reply was lost.
        void this.#stop(worker, assignment.taskId, task.token)
      }
      await this.#wait(Math.min(FIRST_DELAY_MS * 2 ** round, MAX_DELAY_MS), signal)
    }
    return null
  }

  #requestBody(assignment: Assignment): object {
    const { command } = assignment
    return {
      task_instance_id: assignment.taskId,
      run_id: assignment.runId,
      task_id: assignment.task,
      command: command === null ? "" : "shell" in command ? command.shell : command.argv,
      input: assignment.input,
      attempt: assignment.attempt,
      callback_url: `${this.#options.callback()}/internal/task-result`,
      env: { ...assignment.env, ...assignment.callback?.() },
      timeout_ms: assignment.node.timeoutMs,
      lease_ms: this.#leaseMs * WORKER_LEASE_PART,
    }
  }

  /** Returns the tokens that the worker does not know; null without a valid reply. */
  async #ask(worker: string, tokens: string[]): Promise<string[] | null> {
    const reply = await this.#post(worker, "/alive", { tokens })
    if (reply?.status !== 200) return null
    const parsed = aliveReply.safeParse(reply.body)
    return parsed.success ? parsed.data.unknown : null
  }

  /** Returns null without a reply in JSON. */
  async #post(worker: string, path: string, message: object): Promise<{ status: number; body: unknown } | null> {
    const { key, clock, fetch } = this.#options
    const body = JSON.stringify(message)
    const headers = { "content-type": "application/json", ...proofOf(key, { path, body }, clock.now()) }
    try {
      const signal = AbortSignal.timeout(Math.min(REPLY_TIMEOUT_MS, this.#leaseMs))
      const response = await fetch(worker + path, { method: "POST", headers, body, signal, redirect: "manual" })
      return { status: response.status, body: await response.json() }
    } catch {
      return null
    }
  }

  /** Stops the task when the signal aborts. Resolves with null when its result takes longer than the grace. */
  async #stopped({ taskId, graceMs }: Assignment, { token }: PushedTask, worker: string, signal: AbortSignal): Promise<null> {
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve()
      else signal.addEventListener("abort", () => resolve(), { once: true })
    })
    await this.#stop(worker, taskId, token)
    await new Promise<void>((resolve) => this.#options.clock.after(graceMs + STOP_SLACK_MS, resolve))
    return null
  }

  async #stop(worker: string, taskId: string, token: string): Promise<void> {
    await this.#post(worker, "/stop", { task_instance_id: taskId, token })
  }

  /** Stores the log and returns the result. */
  async #toResult(assignment: Assignment, result: PushedResult, base: Base, signal: AbortSignal): Promise<AttemptResult> {
    if (result.log !== "") {
      const log = openLog(this.#options.objects, assignment.prefix, assignment)
      await log.write("stdout", result.log)
      await log.close()
    }
    const ended = { ...base, ...(result.exitCode !== null && { exitCode: result.exitCode }) }
    if (result.state === "success") {
      if (isDeferral(result.output))
        return { ...ended, state: "failed", error: "a push worker cannot defer its work", retryable: false }
      return { ...ended, state: "success", output: { inline: result.output } }
    }
    if (signal.aborted) return stopped(signal.reason as StopReason, ended)
    return { ...ended, state: result.state, error: maskText(result.error ?? result.state, assignment.secrets) }
  }

  #wait(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#options.clock.after(ms, resolve)
      signal.addEventListener("abort", () => (cancel(), resolve()), { once: true })
    })
  }

  #token(attemptId: string, dispatch: number): string {
    return createHmac("sha256", this.#secret).update(`${attemptId}.${dispatch}`).digest("base64url")
  }
}

type Base = Pick<AttemptResult, "startedAt" | "finishedAt" | "externalId">

const STATES = { cancel: "cancelled", timeout: "timeout", shutdown: "lost", lost: "lost" } as const

const stopped = (reason: StopReason, base: Base): AttemptResult => ({
  ...base,
  state: STATES[reason],
  error: `stopped: ${reason}`,
})

/** Returns the result of a stopped task without a result. After a timeout, the worker counts as lost. */
const withoutResult = (reason: StopReason, base: Base, worker: string): AttemptResult =>
  reason === "timeout"
    ? { ...base, state: "lost", error: `lost: no result came from ${worker} within the timeout` }
    : stopped(reason, base)
