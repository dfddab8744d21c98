// Tells the server what became of attempts, in batches, in order, until it was heard. A start may wait a little for its end.

import type { ServerClient } from "./server-client.ts"
import { ServerError } from "./server-error.ts"
import type { Registration } from "./session.ts"
import type { AssignedTask } from "../tasks/assigned-task.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Json } from "../../core/model/json.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { reportBody } from "../../protocol/api/workers.ts"
import type { z } from "zod"

type Entry = z.input<typeof reportBody>["entries"][number]

interface Waiting {
  task: AssignedTask
  entry: Entry
  bytes: number
}

const START_DELAY_MS = 20
const MOST_ENTRIES = 500
const MOST_BYTES = 512 * 1024

export interface ReporterOptions {
  link: ServerClient
  clock: Clock
  /** Others have it now. */
  refused(task: AssignedTask): void
  /** Its end is written down. */
  settled(task: AssignedTask): void
  trouble(error: ServerError): void
}

export class Reporter {
  readonly #options: ReporterOptions
  readonly #session: Registration
  #waiting: Waiting[] = []
  #sending = false
  #cancelSoon: (() => void) | null = null
  #idle: (() => void)[] = []

  constructor(session: Registration, options: ReporterOptions) {
    this.#session = session
    this.#options = options
  }

  started(task: AssignedTask, { at, externalId }: { at: number; externalId?: string }): void {
    this.#add(task, { ...fence(task), kind: "started", at, ...(externalId !== undefined && { external_id: externalId }) })
    this.#cancelSoon ??= this.#options.clock.after(START_DELAY_MS, () => void this.#send())
  }

  /** The latest counts: one that still waits is left out. */
  progress(task: AssignedTask, fraction: number | null, details: Json): void {
    this.#waiting = this.#waiting.filter((each) => each.task !== task || each.entry.kind !== "progress")
    this.#add(task, { ...fence(task), kind: "progress", fraction, details })
    this.#cancelSoon ??= this.#options.clock.after(START_DELAY_MS, () => void this.#send())
  }

  ended(task: AssignedTask, result: AttemptResult): void {
    this.#add(task, { ...fence(task), kind: "ended", result: resultOf(result) })
    void this.#send()
  }

  released(task: AssignedTask): void {
    this.#add(task, { ...fence(task), kind: "released" })
    void this.#send()
  }

  /** Resolves when nothing waits any more. */
  idle(): Promise<void> {
    if (!this.#sending && this.#waiting.length === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  #add(task: AssignedTask, entry: Entry): void {
    const bytes = entry.kind === "ended" || entry.kind === "progress" ? JSON.stringify(entry).length : 200
    this.#waiting.push({ task, entry, bytes })
  }

  async #send(): Promise<void> {
    this.#cancelSoon?.()
    this.#cancelSoon = null
    if (this.#sending) return
    this.#sending = true
    // What ends in the same moment goes together.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#waiting.length > 0 && !this.#session.ended.aborted) {
      const batch = this.#take()
      await this.#deliver(batch).catch((error: unknown) => {
        if (!this.#session.ended.aborted) this.#options.trouble(new ServerError(null, String(error)))
      })
    }
    this.#sending = false
    for (const resolve of this.#idle.splice(0)) resolve()
  }

  #take(): Waiting[] {
    let bytes = 0
    let count = 0
    for (const each of this.#waiting) {
      bytes += each.bytes
      if (count === MOST_ENTRIES || (count > 0 && bytes > MOST_BYTES)) break
      count += 1
    }
    const batch = this.#waiting.slice(0, count)
    this.#waiting = this.#waiting.slice(count)
    return batch
  }

  async #deliver(batch: Waiting[]): Promise<void> {
    const { link, clock, trouble } = this.#options
    const { id, token, ended } = this.#session
    const entries = batch.map(({ entry }) => entry)
    try {
      const { refused } = await link.withRetries(
        () =>
          link.json<{ refused: string[] }>({
            path: `/workers/${id}/report`,
            key: token,
            body: { now: clock.now(), entries },
            signal: ended,
          }),
        ended,
        trouble,
      )
      this.#heard(batch, new Set(refused))
    } catch (error) {
      if (!(error instanceof ServerError)) throw error
      if (ended.aborted) return
      if (error.status === 400 || error.status === 413) return this.#unreadable(batch, error)
      if (error.status !== 409) this.#options.trouble(error)
      // Nobody will ever hear of them: they are given up, so that the server gives them to others.
      this.#heard(batch, new Set(entries.map((entry) => entry.attempt_id)))
    }
  }

  #heard(batch: readonly Waiting[], refused: ReadonlySet<string>): void {
    for (const { task, entry } of batch) {
      if (refused.has(entry.attempt_id)) this.#options.refused(task)
      else if (entry.kind === "ended" || entry.kind === "released") this.#options.settled(task)
    }
  }

  /** One of them cannot be told as it is: each is told alone, and that one as a failure. */
  async #unreadable(batch: Waiting[], error: ServerError): Promise<void> {
    if (batch.length > 1) {
      for (const each of batch) await this.#deliver([each])
      return
    }
    const [{ task, entry }] = batch as [Waiting]
    if (entry.kind !== "ended") return this.#options.trouble(error)
    if (entry.result.error?.startsWith(UNTOLD) === true) return this.#options.refused(task)
    const { started_at, finished_at } = entry.result
    const result = { state: "failed", started_at, finished_at, error: UNTOLD + error.message, retryable: false } as const
    await this.#deliver([{ task, entry: { ...entry, result }, bytes: 0 }])
  }
}

const UNTOLD = "its result cannot be told to the server: "

const fence = ({ wire }: AssignedTask): { row: number; attempt_id: string; token: string } => ({
  row: wire.row,
  attempt_id: wire.attempt_id,
  token: wire.token,
})

const resultOf = (result: AttemptResult): Extract<Entry, { kind: "ended" }>["result"] => {
  const { state, startedAt, finishedAt, output, error, exitCode, externalId, usage, retryable, retryAfterMs } = result
  return {
    state,
    started_at: startedAt,
    finished_at: finishedAt,
    ...(output !== undefined && { output: "inline" in output ? { inline: output.inline } : { bytes: output.bytes } }),
    ...(error !== undefined && { error: error.slice(0, 65_536) }),
    ...(exitCode !== undefined && { exit_code: exitCode }),
    ...(externalId !== undefined && { external_id: externalId.slice(0, 300) }),
    ...(usage !== undefined && { usage }),
    ...(retryable !== undefined && { retryable }),
    ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }),
  }
}
