// Polls other services for the state of deferred work. The task's own expressions interpret the response; a request that fails is
// repeated with back-off.

import { nodeOf } from "../attempts/claims.ts"
import { readForMasking, readSecret } from "../attempts/secret.ts"
import { TaskFailure } from "../attempts/task-failure.ts"
import type { EngineOptions } from "../ports.ts"
import type { WaitStep } from "./waiting-tasks.ts"
import type { ExpressionScope } from "../../core/expressions/expressions.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { jsonOrText } from "../../core/values/exact-json.ts"
import type { JsonObject } from "../../core/values/json.ts"
import { BLOCKED_REQUEST, type Fetch } from "../../core/model/ports.ts"
import type { Poll, WaitingOn } from "../../core/model/waiting-on.ts"
import type { Node } from "../../core/model/workflow.ts"
import { allowedFor, hostViolation } from "../../core/rules/access/policy.ts"
import { maskJson } from "../../objects/mask.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

type PollWait = Extract<WaitingOn, { kind: "poll" }>

/** Further polls that are due are postponed, so that slow services do not occupy the whole gate, nor one of them all polls. */
const MAX_CONCURRENT = 128
const MAX_PER_SERVICE = 16
const MIN_POSTPONE_MS = 250
const MAX_POSTPONE_MS = 30_000
/** Interval between two postponed polls of a service: the more of them wait, the longer each does, since each one costs a write. */
const SPACING_MS = MIN_POSTPONE_MS / MAX_PER_SERVICE
const RESPONSE_TIMEOUT_MS = 30_000
const MAX_BODY = 1024 * 1024
const MAX_BACKOFF_MS = 300_000

export class DeferredPolls {
  readonly #options: EngineOptions
  readonly #stop = new AbortController()
  readonly #inFlight = new Map<string, number>()
  /** Time of the next postponed poll by service, for those with polls in flight. */
  readonly #nextPostponed = new Map<string, number>()
  #total = 0

  constructor(options: EngineOptions) {
    this.#options = options
  }

  stop(): void {
    this.#stop.abort()
  }

  /**
   * Polls deferred work once, or postpones the poll while too many run. `leftMs`: time until the timeout of the deferred work; null:
   * without limit.
   */
  async poll(waitingOn: PollWait, claim: TaskClaim, node: Node, leftMs: number | null): Promise<WaitStep> {
    const { fetch } = this.#options
    if (fetch === undefined) throw new TaskFailure("nothing here can send the requests of a poll")
    const service = serviceOf(waitingOn.poll.url)
    if (this.#total >= MAX_CONCURRENT || (this.#inFlight.get(service) ?? 0) >= MAX_PER_SERVICE) {
      return { waitingOn, delayMs: this.#postpone(service) }
    }
    this.#count(service, 1)
    let response: JsonObject
    try {
      const timeoutMs = Math.min(RESPONSE_TIMEOUT_MS, leftMs ?? RESPONSE_TIMEOUT_MS)
      const checkedFetch: Fetch = (url, init) => fetch(url, { ...init, check: (target) => this.#checkHost(claim, target) })
      response = await this.#respond(checkedFetch, waitingOn.poll, node, timeoutMs)
    } catch (error) {
      return this.#failed(error, waitingOn, claim)
    } finally {
      this.#count(service, -1)
    }
    return await this.#interpret(waitingOn, response)
  }

  /** Throws a TaskFailure if the administrator's policy forbids requests to a host. */
  #checkHost(claim: TaskClaim, url: URL): void {
    const { policy, store } = this.#options
    const forbidden = policy === undefined ? null : hostViolation(allowedFor(policy, nodeOf(store, claim).workflow), url)
    if (forbidden !== null) throw new TaskFailure(forbidden)
  }

  /** Returns the time until a further poll of the service, after those that were postponed before. */
  #postpone(service: string): number {
    const now = this.#options.clock.monotonic()
    const soonest = Math.max(now + MIN_POSTPONE_MS, this.#nextPostponed.get(service) ?? 0)
    const at = Math.min(soonest, now + MAX_POSTPONE_MS)
    this.#nextPostponed.set(service, at + SPACING_MS)
    return at - now
  }

  #count(service: string, change: 1 | -1): void {
    this.#total += change
    const count = (this.#inFlight.get(service) ?? 0) + change
    if (count === 0) {
      this.#inFlight.delete(service)
      this.#nextPostponed.delete(service)
    } else this.#inFlight.set(service, count)
  }

  /** Returns the wait for the next try. Throws when another try cannot help, or when the engine stops. */
  #failed(error: unknown, waitingOn: PollWait, claim: TaskClaim): WaitStep {
    if (error instanceof TaskFailure || this.#stop.signal.aborted) throw error
    if (error instanceof Error && error.name === BLOCKED_REQUEST) throw new TaskFailure(error.message)
    const fields = { run: claim.runId, service: serviceOf(waitingOn.poll.url), error: messageOf(error) }
    this.#options.log.warn(fields, "a poll failed; trying again")
    return nextPoll(waitingOn, waitingOn.errors + 1, `the last poll failed: ${messageOf(error)}`)
  }

  /** Sends the request with a timeout, which includes the reading of secrets. */
  async #respond(fetch: Fetch, poll: Poll, node: Node, timeoutMs: number): Promise<JsonObject> {
    const timeout = new AbortController()
    const cancel = this.#options.clock.after(timeoutMs, () => timeout.abort(new Error(`no answer within ${timeoutMs / 1000}s`)))
    const signal = AbortSignal.any([timeout.signal, this.#stop.signal])
    try {
      return await Promise.race([this.#request(fetch, poll, node, signal), rejectOnAbort(signal)])
    } finally {
      cancel()
    }
  }

  /** Returns the response with the task's secrets masked, so that no expression reads them. */
  async #request(fetch: Fetch, poll: Poll, node: Node, signal: AbortSignal): Promise<JsonObject> {
    const secrets = await readForMasking(this.#options, node)
    const headers: { [name: string]: string } = {}
    for (const [name, value] of Object.entries(poll.headers)) {
      headers[name] = typeof value === "string" ? value : await readSecret(this.#options, value.secret)
      if (typeof value !== "string") secrets.push(headers[name])
    }
    const hasBody = poll.body !== undefined && poll.method !== "GET" && poll.method !== "HEAD"
    if (hasBody && typeof poll.body !== "string") headers["content-type"] ??= "application/json"
    const body = typeof poll.body === "string" ? poll.body : JSON.stringify(poll.body)
    signal.throwIfAborted()
    const init = { method: poll.method, headers, ...(hasBody && { body }), redirects: 5, signal }
    const response = await fetch(poll.url, init)
    const text = await readText(response.body)
    const received = { headers: headersOf(response.headers), body: jsonOrText(text) }
    return { status: response.status, ...(maskJson(received, secrets) as JsonObject) }
  }

  /** Expressions may fail on an error status: the poll is then repeated, unless `fail_when` or `done_when` holds. */
  async #interpret(waitingOn: PollWait, response: JsonObject): Promise<WaitStep> {
    const { poll } = waitingOn
    const { evaluator } = this.#options
    const scope = { params: {}, tasks: {}, run: NO_RUN, response } as ExpressionScope
    const holds = async (source: string): Promise<boolean> => (await evaluator.evaluate(source, scope)) === true
    const status = response["status"] as number
    try {
      if (poll.failWhen !== undefined && (await holds(poll.failWhen))) {
        return { result: { state: "failed", error: `fail_when holds: ${poll.failWhen} (status ${status})` } }
      }
      if (await holds(poll.doneWhen)) {
        const output = poll.output === undefined ? response["body"]! : await evaluator.evaluate(poll.output, scope)
        return { result: { state: "success", output } }
      }
    } catch (error) {
      if (status < 400) throw error
    }
    const errors = status === 429 || status >= 500 ? waitingOn.errors + 1 : 0
    return nextPoll(waitingOn, errors, `the last response had the status ${status}`)
  }
}

const rejectOnAbort = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    const abort = (): void => reject(signal.reason as Error)
    if (signal.aborted) abort()
    else signal.addEventListener("abort", abort, { once: true })
  })

/** Returns the part of an address that may be logged: its path and query may contain secrets. */
const serviceOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : "no URL")

const NO_RUN = { id: "", workflow: "", logical_date: null, date: null, trigger: "", cause: null }

const nextPoll = (waitingOn: PollWait, errors: number, last: string): WaitStep => {
  const { everyMs } = waitingOn.poll
  const delayMs = Math.min(everyMs * 2 ** Math.min(errors, 20), Math.max(MAX_BACKOFF_MS, everyMs))
  return { waitingOn: { ...waitingOn, errors, last }, delayMs }
}

const readText = async (body: ReadableStream<Uint8Array> | null): Promise<string> => {
  if (body === null) return ""
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of body) {
    bytes += part.length
    if (bytes > MAX_BODY) throw new Error(`the answer is larger than ${MAX_BODY} bytes`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString("utf8")
}

const headersOf = (headers: Iterable<[string, string]> | object): JsonObject =>
  Symbol.iterator in headers ? Object.fromEntries(headers) : {}
