// The http executor: one attempt is one request, with its redirects. A status that is not expected fails the attempt; it is tried again
// where that may help (408, 429, 5xx, or what `retry_on` names; a network that did not carry it), not before `Retry-After`.
// The log tells of request and answer, never of headers or of a whole body.

import type { Response } from "undici"
import type { AllowedHost } from "../../core/settings/http-allow.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import { type LogSink, openLog } from "../../objects/logs/log-sink.ts"
import { maskJson, maskText } from "../../objects/mask.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../executor.ts"
import { INLINE_MAX } from "../output.ts"
import { stoppedResult } from "../stopped.ts"
import { messageOf } from "../../core/model/error-message.ts"
import { formatBytes } from "../messages.ts"
import { answerOutput, bodyInWords, readBody, retryAfterMs } from "./answer.ts"
import { type Address, guardedFetch, type HttpPolicy, httpPolicy, RefusedRequest } from "./guarded-fetch.ts"
import { BadRequest, type HttpRequest, httpRequest } from "./request.ts"

export interface HttpExecutorOptions {
  objects: ObjectStore
  clock: Clock
  allow: readonly AllowedHost[]
  resolve?(host: string): Promise<Address[]>
}

type End = Pick<AttemptResult, "output" | "error" | "retryable" | "retryAfterMs"> & { state: "success" | "failed" }

export class HttpExecutor implements Executor {
  readonly name = "http"
  readonly #objects: ObjectStore
  readonly #clock: Clock
  readonly #policy: HttpPolicy

  constructor({ objects, clock, allow, resolve }: HttpExecutorOptions) {
    this.#objects = objects
    this.#clock = clock
    this.#policy = httpPolicy({ allow, ...(resolve !== undefined && { resolve }) })
  }

  stop(): Promise<void> {
    return this.#policy.close()
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { signal } = context
    const startedAt = this.#clock.now()
    const base = () => ({ startedAt, finishedAt: this.#clock.now() })
    if (signal.aborted) return stoppedResult(signal.reason as StopReason, { ...base(), startedAt: null }, assignment)
    context.started({ at: startedAt })
    let log: LogSink | null = null
    try {
      log = openLog(this.#objects, assignment.prefix, { secrets: assignment.secrets })
      const end = await this.#send(assignment, log, signal)
      await log.close()
      return { ...base(), ...end }
    } catch (error) {
      const stopped = signal.aborted
      const told = maskText(messageOf(error), assignment.secrets)
      await this.#closeAfter(log, stopped ? `stopped: ${String(signal.reason)}` : told)
      if (stopped) return stoppedResult(signal.reason as StopReason, base(), assignment)
      return { ...base(), state: "failed", error: told, ...(isFinal(error) && { retryable: false }) }
    }
  }

  async #send(assignment: Assignment, log: LogSink, signal: AbortSignal): Promise<End> {
    const request = httpRequest(assignment)
    const began = this.#clock.now()
    const size = request.body === null ? "" : `, ${formatBytes(Buffer.byteLength(request.body))}`
    await log.write("stdout", `> ${request.method} ${request.shown(request.url)}${size}\n`)
    const { answer, body } = await this.#fetch(request, log, signal)
    const kind = answer.headers.get("content-type") ?? "no type"
    const told = `${answer.status} ${answer.statusText}`.trim()
    await log.write("stdout", `< ${told}, ${kind}, ${formatBytes(body.length)} in ${this.#clock.now() - began} ms\n`)
    if (request.expect(answer.status)) return this.#success(assignment, answer, body)
    const problem = `${request.method} ${request.shown(request.url)} answered ${told}${bodyInWords(body)}`
    await log.write("stderr", `${problem}\n`)
    return { state: "failed", error: maskText(problem, assignment.secrets), ...this.#again(request, answer) }
  }

  async #fetch(request: HttpRequest, log: LogSink, signal: AbortSignal): Promise<{ answer: Response; body: Buffer }> {
    try {
      const answer = await guardedFetch(
        request.url,
        {
          method: request.method,
          headers: request.headers,
          ...(request.body !== null && { body: request.body }),
          redirects: request.redirects,
          private: request.private,
          redirected: (status, to) => void log.write("stdout", `< ${status}, on to ${request.shown(to)}\n`),
          signal,
        },
        this.#policy,
      )
      const body = await readBody(answer, request.maxBody)
      if (body === null) throw tooLarge(answer, request)
      return { answer, body }
    } catch (error) {
      throw isFinal(error) ? error : new Error(`no answer: ${reasonOf(error)}`, { cause: error })
    }
  }

  async #success({ prefix, secrets, maxOutputBytes }: Assignment, answer: Response, body: Buffer): Promise<End> {
    const output = maskJson(answerOutput(answer, body), secrets)
    const text = JSON.stringify(output)
    const bytes = Buffer.byteLength(text)
    if (bytes <= INLINE_MAX) return { state: "success", output: { inline: output } }
    if (bytes > maxOutputBytes) {
      const error = `its answer of ${formatBytes(bytes)} is larger than the limit of ${formatBytes(maxOutputBytes)} (max_output)`
      return { state: "failed", error, retryable: false }
    }
    const key = `${prefix}output.json`
    await this.#objects.put(key, text)
    return { state: "success", output: { key, bytes } }
  }

  #again({ retryOn }: HttpRequest, answer: Response): Pick<End, "retryable" | "retryAfterMs"> {
    if (!retryOn(answer.status)) return { retryable: false }
    const wait = retryAfterMs(answer.headers.get("retry-after"), this.#clock.now())
    return wait === null ? {} : { retryAfterMs: wait }
  }

  /** A log that cannot be written does not hide what went wrong before. */
  async #closeAfter(log: LogSink | null, line: string): Promise<void> {
    try {
      await log?.write("stderr", `${line}\n`)
      await log?.close()
    } catch {
      // Told by the result.
    }
  }
}

const tooLarge = (answer: Response, { url, maxBody, shown }: HttpRequest): BadRequest =>
  new BadRequest(
    `${shown(url)} answered ${answer.status} with a body of more than ${formatBytes(maxBody)}; raise http.max_body (up to max_output)`,
  )

const isFinal = (error: unknown): boolean => error instanceof BadRequest || error instanceof RefusedRequest

const reasonOf = (error: unknown): string => {
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error
  // Of a name with several addresses, each has its own failure.
  if (reason instanceof AggregateError && reason.errors.length > 0) return reason.errors.map(messageOf).join("; ")
  return messageOf(reason)
}
