// Writes status.json of an attempt that runs in `ork exec`: at once, with every beat, when something is told (at most once a second), and at
// the end. Writes never overlap. One that fails is made good by the next; the last one is tried again for minutes.

import type { AttemptResult } from "../../core/model/change.ts"
import type { Json } from "../../core/model/json.ts"
import { type Clock, iso } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { type ExecStatus, HEARTBEAT_MS, STATUS_FILE } from "../../protocol/wire/exec-files.ts"

const SOON_MS = 1000
const TRIES = 8
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

  /** Throws when the store takes nothing: then there is no use in beginning. */
  async begin(): Promise<void> {
    await this.#write()
    this.#plan(HEARTBEAT_MS)
  }

  started({ at, externalId }: { at: number; externalId?: string }): void {
    Object.assign(this.#status, { started_at: iso(at), external_id: externalId ?? null })
    this.#plan(0)
  }

  progress(fraction: number | null, details: Json): void {
    this.#status.progress = { fraction, details }
    this.#plan(SOON_MS)
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

  #plan(ms: number): void {
    const at = this.#clock.now() + ms
    if (this.#timer !== null && this.#timer.at <= at) return
    this.#timer?.cancel()
    const cancel = this.#clock.after(ms, () => {
      this.#timer = null
      this.#writing = this.#writing.then(() => this.#beat())
    })
    this.#timer = { at, cancel }
  }

  async #beat(): Promise<void> {
    try {
      await this.#write()
    } catch (error) {
      this.#warn(`the status could not be written, and is tried again: ${String(error)}`)
    }
    if (this.#status.status === "running") this.#plan(HEARTBEAT_MS)
  }

  async #write(): Promise<void> {
    this.#status.beat += 1
    this.#status.heartbeat_at = iso(this.#clock.now())
    await this.#objects.put(this.#key, JSON.stringify(this.#status))
  }
}

/** Tries again with longer and longer pauses; throws the last error. */
export const withRetries = async <T>(clock: Clock, work: () => Promise<T>): Promise<T> => {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (tries >= TRIES) throw error
      await new Promise<void>((resolve) => clock.after(FIRST_RETRY_MS * 2 ** tries, resolve))
    }
  }
}
