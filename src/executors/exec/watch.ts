// One attempt in `ork exec` as the engine sees it: what its status.json says becomes started, progress and the result. Clocks of the
// two sides are never compared: a beat is stale when it was the same for 60 s of looks that reached the object store.

import type { AttemptResult, Output } from "../../core/model/change.ts"
import type { Json } from "../../core/model/json.ts"
import { type ExecStatus, execStatus, OUTPUT_FILE, STALE_MS, STATUS_FILE } from "../../protocol/wire/exec-files.ts"
import type { StopReason } from "../executor.ts"
import { stoppedResult } from "../stopped.ts"
import type { Gone, WatchOptions } from "./exec.ts"
import type { Looked } from "./loop.ts"

/** What is larger stays an object. */
const INLINE_MAX = 65_536
/** After the grace of a stopped attempt: for the container to go and to be seen gone. */
const STOP_PATIENCE_MS = 30_000

export class Watch implements Looked {
  readonly key: string
  /** Set when the container is known to have ended: the next look is the last. */
  gone: Gone | null = null
  readonly #options: WatchOptions
  readonly #done: (result: AttemptResult) => void
  readonly #onAbort = (): void => this.#stopping()
  #status: ExecStatus | null = null
  /** Since when the same beat was seen without a gap. */
  #sameSince: number | null = null
  #started = false
  #ended = false
  #cancelPatience: (() => void) | null = null

  constructor(options: WatchOptions, done: (result: AttemptResult) => void) {
    this.#options = options
    this.#done = done
    this.key = options.assignment.prefix + STATUS_FILE
    const { signal } = options.context
    if (signal.aborted) this.#stopping()
    else signal.addEventListener("abort", this.#onAbort, { once: true })
  }

  seen(content: Uint8Array | null | Error): void {
    if (this.#ended) return
    if (content instanceof Error) {
      this.#sameSince = null
      return
    }
    const status = content === null ? null : parseStatus(content)
    if (status instanceof Error) return this.#end({ ...this.#base(), state: "failed", error: status.message })
    if (status !== null && status.status !== "running") return void this.#final(status)
    if (this.gone !== null) return this.#end({ ...this.#base(), ...this.gone })
    if (status !== null) this.#beat(status)
  }

  #beat(status: ExecStatus): void {
    const { clock, context } = this.#options
    const now = clock.now()
    const fresh = status.beat !== this.#status?.beat
    this.#status = status
    this.#tellStart(status)
    if (fresh && status.progress !== null) {
      const { fraction, details } = status.progress
      context.progress({ ...(fraction !== null && { fraction }), details: details as Json })
    }
    if (fresh || this.#sameSince === null) this.#sameSince = now
    else if (now - this.#sameSince > STALE_MS) {
      this.#end({ ...this.#base(), state: "lost", error: `no heartbeat for ${STALE_MS / 1000} s: what ran it is gone` })
    }
  }

  async #final(status: ExecStatus): Promise<void> {
    this.#status = status
    this.#tellStart(status)
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
      return this.#end(result)
    }
    const { signal } = this.#options.context
    if (signal.aborted) return this.#end(this.#stopped())
    this.#end({
      ...base,
      state: status.status as AttemptResult["state"],
      ...(status.error !== null && { error: status.error }),
    })
  }

  async #output({ output_bytes: bytes }: ExecStatus): Promise<Output> {
    if (bytes === null) return { inline: null }
    const { objects, assignment } = this.#options
    const key = assignment.prefix + OUTPUT_FILE
    if (bytes > INLINE_MAX) return { key, bytes }
    const content = await objects.get(key)
    if (content === null) throw new Error(`${key} is not there`)
    return { inline: JSON.parse(Buffer.from(content).toString("utf8")) as Json }
  }

  #tellStart({ started_at: at, external_id: pid }: ExecStatus): void {
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

  #stopping(): void {
    const { clock, assignment } = this.#options
    this.#cancelPatience = clock.after(assignment.graceMs + STOP_PATIENCE_MS, () => this.#end(this.#stopped()))
  }

  #end(result: AttemptResult): void {
    if (this.#ended) return
    this.#ended = true
    this.#cancelPatience?.()
    const { signal } = this.#options.context
    signal.removeEventListener("abort", this.#onAbort)
    // A container that was told to stop and went without a word was stopped.
    this.#done(signal.aborted && result.state !== "success" ? this.#stopped() : result)
  }
}

const parseStatus = (content: Uint8Array): ExecStatus | Error => {
  try {
    return execStatus.parse(JSON.parse(Buffer.from(content).toString("utf8")))
  } catch (error) {
    return new Error(
      `its status.json cannot be understood: ${error instanceof Error ? error.message.split("\n")[0] : String(error)}`,
    )
  }
}
