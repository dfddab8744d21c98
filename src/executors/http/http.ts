// The http executor runs each attempt as one request with its redirects. An unexpected status fails the attempt, which may be
// retried if that may help (408, 429, 5xx or the statuses in `retry_on`, and network errors), but not before `Retry-After`. The
// log has the request and the response, but never headers or a whole body.

import type { Response } from "undici"
import type { AllowedHost } from "../../core/settings/http-allow.ts"
import { type AttemptResult, MAX_INLINE_OUTPUT_BYTES } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import { type LogSink, openLog } from "../../objects/logs/log-sink.ts"
import { maskJson, maskText } from "../../objects/mask.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../executor.ts"
import { stoppedResult } from "../stopped.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { formatBytes } from "../../core/values/quantities.ts"
import { responseOutput, describeBody, retryAfterMs } from "./response.ts"
import { type Address, type HttpPolicy, httpPolicy } from "./guarded-fetch.ts"
import { type HttpRequest, httpRequest } from "./request.ts"
import { isPermanent, send } from "./send.ts"

export interface HttpExecutorOptions {
  objects: ObjectStore
  clock: Clock
  allow: readonly AllowedHost[]
  resolve?(host: string): Promise<Address[]>
}

type Outcome = Pick<AttemptResult, "output" | "error" | "retryable" | "retryAfterMs"> & { state: "success" | "failed" }

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
      log = openLog(this.#objects, assignment.prefix, assignment)
      const outcome = await this.#send(assignment, log, signal)
      await log.close()
      return { ...base(), ...outcome }
    } catch (error) {
      const stopped = signal.aborted
      const message = maskText(messageOf(error), assignment.secrets)
      await this.#closeWith(log, stopped ? `stopped: ${String(signal.reason)}` : message)
      if (stopped) return stoppedResult(signal.reason as StopReason, base(), assignment)
      return { ...base(), state: "failed", error: message, ...(isPermanent(error) && { retryable: false }) }
    }
  }

  async #send(assignment: Assignment, log: LogSink, signal: AbortSignal): Promise<Outcome> {
    const request = httpRequest(assignment)
    const began = this.#clock.now()
    const size = request.body === null ? "" : `, ${formatBytes(Buffer.byteLength(request.body))}`
    await log.write("stdout", `> ${request.method} ${request.redact(request.url)}${size}\n`)
    const onRedirect = (code: number, to: URL): void => void log.write("stdout", `< ${code}, on to ${request.redact(to)}\n`)
    const { response, body } = await send(
      { ...request, policy: assignment.policy },
      { signal, onRedirect, policy: this.#policy },
    )
    const type = response.headers.get("content-type") ?? "no type"
    const status = `${response.status} ${response.statusText}`.trim()
    await log.write("stdout", `< ${status}, ${type}, ${formatBytes(body.length)} in ${this.#clock.now() - began} ms\n`)
    if (request.expect(response.status)) return this.#success(assignment, response, body)
    const problem = `${request.method} ${request.redact(request.url)} responded ${status}${describeBody(body)}`
    await log.write("stderr", `${problem}\n`)
    return { state: "failed", error: maskText(problem, assignment.secrets), ...this.#retryOf(request, response) }
  }

  async #success({ prefix, secrets, maxOutputBytes }: Assignment, response: Response, body: Buffer): Promise<Outcome> {
    const output = maskJson(responseOutput(response, body), secrets)
    const text = JSON.stringify(output)
    const bytes = Buffer.byteLength(text)
    if (bytes <= MAX_INLINE_OUTPUT_BYTES) return { state: "success", output: { inline: output } }
    if (bytes > maxOutputBytes) {
      const error = `its response of ${formatBytes(bytes)} is larger than the limit of ${formatBytes(maxOutputBytes)} (max_output)`
      return { state: "failed", error, retryable: false }
    }
    const key = `${prefix}output.json`
    await this.#objects.put(key, text)
    return { state: "success", output: { key, bytes } }
  }

  #retryOf({ retryOn }: HttpRequest, response: Response): Pick<Outcome, "retryable" | "retryAfterMs"> {
    if (!retryOn(response.status)) return { retryable: false }
    const wait = retryAfterMs(response.headers.get("retry-after"), this.#clock.now())
    return wait === null ? {} : { retryAfterMs: wait }
  }

  /** Writes the last line. Ignores errors, which would hide the failure that the result reports. */
  async #closeWith(log: LogSink | null, line: string): Promise<void> {
    try {
      await log?.write("stderr", `${line}\n`)
      await log?.close()
    } catch {
      // The result reports the failure.
    }
  }
}
