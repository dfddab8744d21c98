// Follows one attempt that runs in `ork exec`: its status.json becomes start, progress and result. The clocks of the two sides
// are never compared: a heartbeat is stale when successful reads have returned the same one for 60 s.

import { type AttemptResult, type Output, MAX_INLINE_OUTPUT_BYTES } from "../../core/model/change.ts"
import type { Json } from "../../core/values/json.ts"
import { type ExecStatus, execStatus, OUTPUT_FILE, STALE_MS, STATUS_FILE } from "../../protocol/wire/exec-files.ts"
import type { StopReason } from "../executor.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { stoppedResult } from "../stopped.ts"
import type { ContainerEnd, WatchOptions } from "./exec.ts"
import type { StatusListener } from "./status-poller.ts"

/** Time after the grace period of a stopped attempt for its container to end and to be seen so. */
const STOP_TIMEOUT_MS = 30_000

export class ExecAttempt implements StatusListener {
  readonly key: string
  /** Set when the container is known to have ended: the next read is the last. */
  containerEnd: ContainerEnd | null = null
  readonly #options: WatchOptions
  readonly #done: (result: AttemptResult) => void
  readonly #onAbort = (): void => this.#limitStop()
  #status: ExecStatus | null = null
  /** Time since when every read returned the same heartbeat; null after a failed read. */
  #sameBeatSince: number | null = null
  #started = false
  #finished = false
  #cancelStopLimit: (() => void) | null = null

  constructor(options: WatchOptions, done: (result: AttemptResult) => void) {
    this.#options = options
    this.#done = done
    this.key = options.assignment.prefix + STATUS_FILE
    const { signal } = options.context
    if (signal.aborted) this.#limitStop()
    else signal.addEventListener("abort", this.#onAbort, { once: true })
  }

  onStatus(content: Uint8Array | null | Error): void {
    if (this.#finished) return
    if (content instanceof Error) {
      this.#sameBeatSince = null
      return
    }
    const status = content === null ? null : parseStatus(content)
    if (status instanceof Error) return this.#finish({ ...this.#base(), state: "failed", error: status.message })
    if (status !== null && status.status !== "running") return void this.#finishAs(status)
    if (this.containerEnd !== null) return this.#finish({ ...this.#base(), ...this.containerEnd })
    if (status !== null) this.#checkHeartbeat(status)
  }

  #checkHeartbeat(status: ExecStatus): void {
    const { clock, context } = this.#options
    const now = clock.monotonic()
    const fresh = status.beat !== this.#status?.beat
    this.#status = status
    this.#reportStart(status)
    if (fresh && status.progress !== null) {
      const { fraction, details } = status.progress
      context.progress({ ...(fraction !== null && { fraction }), details: details as Json })
    }
    if (fresh || this.#sameBeatSince === null) this.#sameBeatSince = now
    else if (now - this.#sameBeatSince > STALE_MS) {
      const error = `no heartbeat for ${STALE_MS / 1000} s: the container, or its connection, is gone`
      this.#finish({ ...this.#base(), state: "lost", error })
    }
  }

  async #finishAs(status: ExecStatus): Promise<void> {
    this.#status = status
    this.#reportStart(status)
    const base = this.#base()
    if (status.status === "success") {
      const result = await this.#output(status).then(
        (output): AttemptResult => ({ ...base, state: "success", output }),
        (error: unknown): AttemptResult => ({
          ...base,
          state: "failed",
          error: `its output could not be read: ${String(error)}`,
        }),
      )
      return this.#finish(result)
    }
    const { signal } = this.#options.context
    if (signal.aborted) return this.#finish(this.#stopped())
    this.#finish({
      ...base,
      state: status.status as AttemptResult["state"],
      ...(status.error !== null && { error: status.error }),
    })
  }

  async #output({ output_bytes: bytes }: ExecStatus): Promise<Output> {
    if (bytes === null) return { inline: null }
    const { objects, assignment } = this.#options
    const key = assignment.prefix + OUTPUT_FILE
    if (bytes > MAX_INLINE_OUTPUT_BYTES) return { key, bytes }
    const content = await objects.get(key)
    if (content === null) throw new Error(`${key} does not exist`)
    return { inline: JSON.parse(Buffer.from(content).toString("utf8")) as Json }
  }

  #reportStart({ started_at: at, external_id: pid }: ExecStatus): void {
    if (this.#started || at === null) return
    this.#started = true
    const externalId = this.#options.externalId ?? pid
    this.#options.context.started({ at: Date.parse(at), ...(externalId !== null && { externalId }) })
  }

  #base(): Omit<AttemptResult, "state"> {
    const { clock, externalId } = this.#options
    const status = this.#status
    const id = externalId ?? status?.external_id ?? null
    return {
      startedAt: status?.started_at ? Date.parse(status.started_at) : null,
      finishedAt: status?.finished_at ? Date.parse(status.finished_at) : clock.now(),
      ...(id !== null && { externalId: id }),
      ...(status !== null && {
        ...(status.exit_code !== null && { exitCode: status.exit_code }),
        ...(Object.keys(status.usage).length > 0 && { usage: status.usage }),
        ...(status.retryable !== null && { retryable: status.retryable }),
        ...(status.retry_after_ms !== null && { retryAfterMs: status.retry_after_ms }),
      }),
    }
  }

  #stopped(): AttemptResult {
    const { assignment, context } = this.#options
    return stoppedResult(context.signal.reason as StopReason, this.#base(), assignment)
  }

  /** Limits the wait for the end of a stopped container, unless somebody else reports that end. */
  #limitStop(): void {
    const { clock, assignment, containerEnd } = this.#options
    if (containerEnd !== undefined) return
    this.#cancelStopLimit = clock.after(assignment.graceMs + STOP_TIMEOUT_MS, () => this.#finish(this.#stopped()))
  }

  #finish(result: AttemptResult): void {
    if (this.#finished) return
    this.#finished = true
    this.#cancelStopLimit?.()
    const { signal } = this.#options.context
    signal.removeEventListener("abort", this.#onAbort)
    // After a stop, only a success is not its consequence.
    this.#done(signal.aborted && result.state !== "success" ? this.#stopped() : result)
  }
}

const parseStatus = (content: Uint8Array): ExecStatus | Error => {
  try {
    return execStatus.parse(JSON.parse(Buffer.from(content).toString("utf8")))
  } catch (error) {
    return new Error(`its status.json is not valid: ${messageOf(error).split("\n")[0]}`)
  }
}
