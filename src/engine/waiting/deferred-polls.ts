// Asks other services whether deferred work is done. A poll that cannot be asked is asked again, ever less often; what the
// answer means is said by the task's own expressions.

import { messageOf } from "../../core/model/error-message.ts"
import type { EngineOptions } from "../ports.ts"
import { secretOf } from "../attempts/secret.ts"
import { TaskFailure } from "../attempts/task-failure.ts"
import type { WaitStep } from "./waiting-tasks.ts"
import type { ExpressionScope } from "../../core/expressions/expressions.ts"
import type { Json, JsonObject } from "../../core/model/json.ts"
import { type Fetch, BLOCKED_REQUEST } from "../../core/model/ports.ts"
import type { WaitingOn } from "../../core/model/waiting-on.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

type PollWait = Extract<WaitingOn, { kind: "poll" }>

/** At once; the rest of what is due is put off a little, so that slow services do not hold up what else the gate has to do. */
const AT_ONCE = 64
const PUT_OFF_MS = 250
const ANSWER_MS = 30_000
const MAX_BODY = 1024 * 1024
const MAX_BACKOFF_MS = 300_000

export class DeferredPolls {
  readonly #options: EngineOptions
  readonly #stop = new AbortController()
  #asking = 0

  constructor(options: EngineOptions) {
    this.#options = options
  }

  stop(): void {
    this.#stop.abort()
  }

  async ask(waits: PollWait, claim: TaskClaim): Promise<WaitStep> {
    const { fetch } = this.#options
    if (fetch === undefined) throw new TaskFailure("nothing here can send the requests of a poll")
    if (this.#asking >= AT_ONCE) return { waitingOn: waits, delayMs: PUT_OFF_MS * (1 + this.#options.random.next()) }
    this.#asking += 1
    let response: JsonObject
    try {
      response = await this.#answer(fetch, waits)
    } catch (error) {
      if (error instanceof TaskFailure) throw error
      if (this.#stop.signal.aborted) throw error
      if (error instanceof Error && error.name === BLOCKED_REQUEST) throw new TaskFailure(error.message)
      this.#options.log.warn(
        { run: claim.runId, service: serviceOf(waits.poll.url), error: messageOf(error) },
        "a poll was not answered",
      )
      return again(waits, waits.errors + 1)
    } finally {
      this.#asking -= 1
    }
    return await this.#judge(waits, response)
  }

  /** In bounded time, whatever the service and the place of its secrets do. */
  async #answer(fetch: Fetch, { poll }: PollWait): Promise<JsonObject> {
    const late = new AbortController()
    const cancel = this.#options.clock.after(ANSWER_MS, () => late.abort(new Error(`no answer within ${ANSWER_MS / 1000}s`)))
    const signal = AbortSignal.any([late.signal, this.#stop.signal])
    try {
      return await Promise.race([this.#request(fetch, poll, signal), aborted(signal)])
    } finally {
      cancel()
    }
  }

  async #request(fetch: Fetch, poll: PollWait["poll"], signal: AbortSignal): Promise<JsonObject> {
    const headers: { [name: string]: string } = {}
    for (const [name, value] of Object.entries(poll.headers)) {
      headers[name] = typeof value === "string" ? value : await secretOf(this.#options, value.secret)
    }
    const hasBody = poll.body !== undefined && poll.method !== "GET" && poll.method !== "HEAD"
    if (hasBody && typeof poll.body !== "string") headers["content-type"] ??= "application/json"
    const body = typeof poll.body === "string" ? poll.body : JSON.stringify(poll.body)
    signal.throwIfAborted()
    const answer = await fetch(poll.url, { method: poll.method, headers, ...(hasBody && { body }), redirects: 5, signal })
    const text = await textOf(answer.body)
    return { status: answer.status, headers: headersOf(answer.headers), body: parsed(text) }
  }

  /** A service that is in trouble is asked again, unless the task has said what that means. */
  async #judge(waits: PollWait, response: JsonObject): Promise<WaitStep> {
    const { poll } = waits
    const scope = { params: {}, tasks: {}, run: NO_RUN, response } as ExpressionScope
    const truth = async (source: string): Promise<boolean> => (await this.#options.evaluator.evaluate(source, scope)) === true
    const status = response["status"] as number
    try {
      if (poll.failWhen !== undefined && (await truth(poll.failWhen))) {
        return { result: { state: "failed", error: `fail_when holds: ${poll.failWhen} (status ${status})` } }
      }
      if (await truth(poll.doneWhen)) {
        const output =
          poll.output === undefined ? response["body"]! : await this.#options.evaluator.evaluate(poll.output, scope)
        return { result: { state: "success", output } }
      }
    } catch (error) {
      if (status < 400) throw error
    }
    return again(waits, status === 429 || status >= 500 ? waits.errors + 1 : 0)
  }
}

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    const end = (): void => reject(signal.reason as Error)
    if (signal.aborted) end()
    else signal.addEventListener("abort", end, { once: true })
  })

/** What may be told of an address: its path and its query may be secrets. */
const serviceOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : "no URL")

const NO_RUN = { id: "", workflow: "", logical_date: null, date: null, trigger: "" }

const again = (waits: PollWait, errors: number): WaitStep => {
  const slower = Math.min(waits.poll.everyMs * 2 ** Math.min(errors, 20), Math.max(MAX_BACKOFF_MS, waits.poll.everyMs))
  return { waitingOn: { ...waits, errors }, delayMs: slower }
}

const textOf = async (body: ReadableStream<Uint8Array> | null): Promise<string> => {
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

/** JSON where it is, else text. */
const parsed = (text: string): Json => {
  try {
    return JSON.parse(text) as Json
  } catch {
    return text
  }
}

const headersOf = (headers: Iterable<[string, string]> | object): JsonObject =>
  Symbol.iterator in headers ? Object.fromEntries(headers) : {}
