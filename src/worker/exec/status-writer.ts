// Writes status.json of an attempt in `ork exec`: at the beginning, with every heartbeat, after a report (at most once a second), and at
// the end. Writes never overlap. A failed write is replaced by the next one; the last one is retried for minutes.

import type { AttemptResult } from "../../core/model/change.ts"
import { sleep } from "../../sleep.ts"
import type { Json } from "../../core/values/json.ts"
import { type Clock, iso } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { type ExecStatus, HEARTBEAT_MS, STATUS_FILE } from "../../protocol/wire/exec-files.ts"

const PROGRESS_DELAY_MS = 1000
const MAX_TRIES = 8
const FIRST_RETRY_MS = 500

export class StatusWriter {
  readonly #objects: ObjectStore
  readonly #key: string
  readonly #clock: Clock
  readonly #warn: (message: string) => void
  #status: ExecStatus
  #timer: { at: number; cancel: () => void } | null = null
  #writing: Promise<void> = Promise.resolve()

  constructor(objects: ObjectStore, prefix: string, clock: Clock, warn: (message: string) => void) {
    this.#objects = objects
    this.#key = prefix + STATUS_FILE
    this.#clock = clock
    this.#warn = warn
    this.#status = {
      version: 1,
      status: "running",
      beat: 0,
      heartbeat_at: iso(clock.now()),
      started_at: null,
      finished_at: null,
      external_id: null,
      progress: null,
      error: null,
      exit_code: null,
      output_bytes: null,
      usage: {},
      retryable: null,
      retry_after_ms: null,
    }
  }

  /** Throws if the store cannot be written; the task must not start then. */
  async begin(): Promise<void> {
    await this.#write()
    this.#schedule(HEARTBEAT_MS)
  }

  started({ at, externalId }: { at: number; externalId?: string }): void {
    Object.assign(this.#status, { started_at: iso(at), external_id: externalId ?? null })
    this.#schedule(0)
  }

  progress(fraction: number | null, details: Json): void {
    this.#status.progress = { fraction, details }
    this.#schedule(PROGRESS_DELAY_MS)
  }

  async end(result: AttemptResult, outputBytes: number | null): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    await this.#writing
    Object.assign(this.#status, {
      status: result.state,
      started_at: result.startedAt === null ? this.#status.started_at : iso(result.startedAt),
      finished_at: iso(result.finishedAt),
      external_id: result.externalId ?? this.#status.external_id,
      error: result.error ?? null,
      exit_code: result.exitCode ?? null,
      output_bytes: outputBytes,
      usage: { ...result.usage },
      retryable: result.retryable ?? null,
      retry_after_ms: result.retryAfterMs ?? null,
    } satisfies Partial<ExecStatus>)
    await withRetries(this.#clock, () => this.#write())
  }

  #schedule(ms: number): void {
    const at = this.#clock.monotonic() + ms
    if (this.#timer !== null && this.#timer.at <= at) return
    this.#timer?.cancel()
    const cancel = this.#clock.after(ms, () => {
      this.#timer = null
      this.#writing = this.#writing.then(() => this.#writeRunning())
    })
    this.#timer = { at, cancel }
  }

  async #writeRunning(): Promise<void> {
    try {
      await this.#write()
    } catch (error) {
      this.#warn(`failed to write the status; trying again: ${String(error)}`)
    }
    if (this.#status.status === "running") this.#schedule(HEARTBEAT_MS)
  }

  async #write(): Promise<void> {
    this.#status.beat += 1
    this.#status.heartbeat_at = iso(this.#clock.now())
    await this.#objects.put(this.#key, JSON.stringify(this.#status))
  }
}

/** Retries with growing delays; throws the last error. */
export const withRetries = async <T>(clock: Clock, work: () => Promise<T>): Promise<T> => {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (tries >= MAX_TRIES) throw error
      await sleep(clock, FIRST_RETRY_MS * 2 ** tries)
    }
  }
}
