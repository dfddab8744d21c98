// Sends process tasks to workers that listen (`ork worker --listen`), one after the other, and waits for the result that each posts
// back. Both ways are proven: the request is signed with the server's key, the result carries the token of its attempt. Meanwhile the
// worker is asked whether it still has it (push-watch.ts): what it lost is tried again elsewhere.

import { createHmac } from "node:crypto"
import { PushWatch } from "./push-watch.ts"
import type { PushedResult } from "../api/http/ports.ts"
import type { AttemptResult } from "../core/model/change.ts"
import type { Clock, Random } from "../core/model/ports.ts"
import { openLog } from "../objects/logs/log-sink.ts"
import { maskText } from "../objects/mask.ts"
import type { ObjectStore } from "../objects/objects.ts"
import { aliveReply } from "../protocol/api/workers.ts"
import { proofOf } from "../protocol/wire/push-proof.ts"
import { equalText } from "../protocol/wire/signature.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../executors/executor.ts"

export interface PushOptions {
  /** Addresses, without a slash at the end. */
  workers: readonly string[]
  apiKey: string
  /** Where this server answers. */
  callback(): string
  objects: ObjectStore
  clock: Clock
  random: Random
  fetch: typeof fetch
  /** 15 s; shorter in tests. */
  leaseMs?: number
}

const LEASE_MS = 15_000
/** The worker ends what it is not asked about for this part of a lease: before it is tried again elsewhere. */
const WORKER_PART = 0.8
/** A worker that takes longer to say yes is passed over. */
const ANSWER_MS = 5000
const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 5000
/** For the result of a task that was told to stop, beyond its grace. */
const STOP_SLACK_MS = 2000

interface Waiting {
  /** New for each worker that it is sent to: one that seemed not to take it cannot answer for the one that did. */
  token: string
  take(result: PushedResult): void
}

export class PushExecutor implements Executor {
  readonly name = "process"
  readonly #options: PushOptions
  readonly #secret: string
  readonly #waiting = new Map<string, Waiting>()
  readonly #watch: PushWatch
  readonly #leaseMs: number
  #next = 0

  constructor(options: PushOptions) {
    this.#options = options
    const { clock, leaseMs = LEASE_MS } = options
    this.#leaseMs = leaseMs
    this.#watch = new PushWatch({ clock, leaseMs, ask: (worker, tokens) => this.#ask(worker, tokens) })
    this.#secret = options.random.hex128() + options.random.hex128()
  }

  /** False: no attempt of this task that is live here has this token. */
  receive(result: PushedResult): boolean {
    const waiting = this.#waiting.get(result.taskId)
    if (waiting === undefined || !equalText(waiting.token, result.token)) return false
    waiting.take(result)
    return true
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { signal } = context
    const { clock } = this.#options
    const ended = Promise.withResolvers<PushedResult>()
    // One instance of a task has one live attempt at a time.
    const waiting: Waiting = { token: "", take: ended.resolve }
    this.#waiting.set(assignment.taskId, waiting)
    let endWatch = (): void => {}
    try {
      const worker = await this.#dispatch(assignment, waiting, signal)
      if (worker === null) return stopped(signal.reason as StopReason, { startedAt: null, finishedAt: clock.now() })
      const startedAt = clock.now()
      context.started({ at: startedAt, externalId: worker })
      const lost = Promise.withResolvers<string>()
      endWatch = this.#watch.add(worker, waiting.token, lost.resolve)
      const result = await Promise.race([ended.promise, lost.promise, this.#stopped(assignment, waiting, worker, signal)])
      const base = { startedAt, finishedAt: clock.now(), externalId: worker }
      if (typeof result === "string") {
        // One that was only out of reach shall not go on with it.
        void this.#stop(worker, assignment.taskId, waiting.token)
        return signal.aborted ? stopped(signal.reason as StopReason, base) : { ...base, state: "lost", error: result }
      }
      return result === null
        ? unheard(signal.reason as StopReason, base, worker)
        : await this.#read(assignment, result, base, signal)
    } finally {
      endWatch()
      if (this.#waiting.get(assignment.taskId) === waiting) this.#waiting.delete(assignment.taskId)
    }
  }

  /** The worker that took it; null: told to stop before one did. */
  async #dispatch(assignment: Assignment, waiting: Waiting, signal: AbortSignal): Promise<string | null> {
    const { workers, callback } = this.#options
    const body = {
      task_instance_id: assignment.taskId,
      run_id: assignment.runId,
      task_id: assignment.task,
      command:
        assignment.command === null ? "" : "shell" in assignment.command ? assignment.command.shell : assignment.command.argv,
      input: assignment.input,
      attempt: assignment.attempt,
      callback_url: `${callback()}/internal/task-result`,
      env: { ...assignment.env, ...assignment.callback?.() },
      timeout_ms: assignment.node.timeoutMs,
      lease_ms: this.#leaseMs * WORKER_PART,
    }
    for (let round = 0; !signal.aborted; round++) {
      for (let tries = 0; tries < workers.length && !signal.aborted; tries++) {
        const worker = workers[this.#next++ % workers.length]!
        waiting.token = this.#token(assignment.attemptId, this.#next)
        if ((await this.#post(worker, "/execute", { ...body, token: waiting.token }))?.status === 202) return worker
        // It may have taken it all the same.
        void this.#stop(worker, assignment.taskId, waiting.token)
      }
      await this.#wait(Math.min(FIRST_WAIT_MS * 2 ** round, MAX_WAIT_MS), signal)
    }
    return null
  }

  /** Which of these the worker does not have; null: it did not answer. */
  async #ask(worker: string, tokens: string[]): Promise<string[] | null> {
    const answer = await this.#post(worker, "/alive", { tokens })
    if (answer?.status !== 200) return null
    const read = aliveReply.safeParse(answer.body)
    return read.success ? read.data.unknown : null
  }

  /** null: no answer that can be read. */
  async #post(worker: string, path: string, message: object): Promise<{ status: number; body: unknown } | null> {
    const { apiKey, clock, fetch } = this.#options
    const body = JSON.stringify(message)
    const headers = { "content-type": "application/json", ...proofOf(apiKey, { path, body }, clock.now()) }
    try {
      const signal = AbortSignal.timeout(Math.min(ANSWER_MS, this.#leaseMs))
      const answer = await fetch(worker + path, { method: "POST", headers, body, signal, redirect: "manual" })
      return { status: answer.status, body: await answer.json() }
    } catch {
      return null
    }
  }

  /** Resolves with null when it was told to stop and no result came in time. */
  async #stopped({ taskId, graceMs }: Assignment, { token }: Waiting, worker: string, signal: AbortSignal): Promise<null> {
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

  async #read(assignment: Assignment, result: PushedResult, base: Base, signal: AbortSignal): Promise<AttemptResult> {
    if (result.log !== "") {
      const log = openLog(this.#options.objects, assignment.prefix, assignment)
      await log.write("stdout", result.log)
      await log.close()
    }
    const ended = { ...base, ...(result.exitCode !== null && { exitCode: result.exitCode }) }
    if (result.state === "success") return { ...ended, state: "success", output: { inline: result.output } }
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

/** It was told to stop, and nothing was heard of it: after its timeout the worker counts as lost. */
const unheard = (reason: StopReason, base: Base, worker: string): AttemptResult =>
  reason === "timeout"
    ? { ...base, state: "lost", error: `lost: no result came from ${worker} within the timeout` }
    : stopped(reason, base)
