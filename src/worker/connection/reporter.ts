// Reports starts, progress and results of attempts to the server, in batches and in order, until the server has accepted them. A
// start is delayed a little: the result of a short attempt contains it. The response to a report brings the next tasks.

import type { Registration } from "./registration.ts"
import { ClientError } from "../../protocol/client/errors.ts"
import type { ServerClient } from "./server-client.ts"
import type { UploadedResult } from "./upload-files.ts"
import type { AssignedTask, WireAssignment } from "../tasks/assigned-task.ts"
import { messageOf } from "../../core/values/error-message.ts"
import type { Json } from "../../core/values/json.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { Logger } from "../../engine/ports.ts"
import type { reportBody, reportReply } from "../../protocol/api/workers.ts"
import type { z } from "zod"

type Body = z.input<typeof reportBody>
type Entry = Body["entries"][number]
type Reply = z.output<typeof reportReply>

interface Report {
  task: AssignedTask
  entry: Entry
  /** Approximate size as JSON. */
  bytes: number
}

const START_DELAY_MS = 20
const MAX_ENTRIES = 500
const MAX_BYTES = 512 * 1024
/** Size of an entry without an output, an error or details. */
const SMALL_ENTRY_BYTES = 200

export interface ReporterOptions {
  client: ServerClient
  clock: Clock
  log: Logger
  /** Called if another worker holds the attempt now, or the server will never accept its reports. */
  onRejected(task: AssignedTask): void
  /** Called when the server has accepted the end or the release of an attempt. */
  onAccepted(task: AssignedTask): void
  /** Returns how many tasks a report may claim now. */
  claimable(): number
  onAssigned(assignments: readonly WireAssignment[]): void
}

export class Reporter {
  readonly #options: ReporterOptions
  readonly #registration: Registration
  /** Starts that are not due yet. */
  readonly #starts = new Map<AssignedTask, Entry>()
  #queue: Report[] = []
  #sending = false
  #claiming = false
  #delivery = Promise.withResolvers<void>()
  #isDelayed = false

  constructor(registration: Registration, options: ReporterOptions) {
    this.#registration = registration
    this.#options = options
  }

  /** Results are about to be reported. */
  get busy(): boolean {
    return this.#sending
  }

  /** A report in flight claims tasks. */
  get claiming(): boolean {
    return this.#claiming
  }

  /** Resolves after the next delivery, or when the registration has ended. */
  delivered(): Promise<void> {
    return this.#delivery.promise
  }

  started(task: AssignedTask, { at, externalId }: { at: number; externalId?: string }): void {
    this.#starts.set(task, {
      ...fence(task),
      kind: "started",
      at,
      ...(externalId !== undefined && { external_id: externalId }),
    })
    this.#sendSoon()
  }

  /** Replaces an earlier progress report that was not sent yet. */
  progress(task: AssignedTask, fraction: number | null, details: Json): void {
    this.#queue = this.#queue.filter((each) => each.task !== task || each.entry.kind !== "progress")
    this.#queueStart(task)
    this.#add(task, { ...fence(task), kind: "progress", fraction, details })
    this.#sendSoon()
  }

  ended(task: AssignedTask, result: UploadedResult): void {
    if (result.startedAt !== null) this.#starts.delete(task)
    else this.#queueStart(task)
    this.#add(task, { ...fence(task), kind: "ended", result: resultOf(result) })
    void this.#send()
  }

  released(task: AssignedTask): void {
    this.#add(task, { ...fence(task), kind: "released" })
    void this.#send()
  }

  #add(task: AssignedTask, entry: Entry): void {
    this.#queue.push({ task, entry, bytes: SMALL_ENTRY_BYTES + contentLength(entry) })
  }

  #queueStart(task: AssignedTask): void {
    const entry = this.#starts.get(task)
    if (entry === undefined) return
    this.#starts.delete(task)
    this.#add(task, entry)
  }

  #sendSoon(): void {
    if (this.#isDelayed) return
    this.#isDelayed = true
    this.#options.clock.after(START_DELAY_MS, () => {
      this.#isDelayed = false
      for (const task of this.#starts.keys()) this.#queueStart(task)
      void this.#send()
    })
  }

  async #send(): Promise<void> {
    if (this.#sending) return
    this.#sending = true
    // Batches the reports of this tick.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#queue.length > 0 && !this.#registration.ended.aborted) {
      await this.#deliver(this.#nextBatch()).catch((error: unknown) => this.#logRejection(error))
      this.#settleDelivery()
    }
    this.#sending = false
    this.#settleDelivery()
  }

  #settleDelivery(): void {
    this.#claiming = false
    this.#delivery.resolve()
    this.#delivery = Promise.withResolvers()
  }

  #nextBatch(): Report[] {
    let bytes = 0
    let count = 0
    for (const report of this.#queue) {
      bytes += report.bytes
      if (count === MAX_ENTRIES || (count > 0 && bytes > MAX_BYTES)) break
      count += 1
    }
    return this.#queue.splice(0, count)
  }

  async #deliver(batch: Report[]): Promise<void> {
    const { client, clock } = this.#options
    const { id, token, ended } = this.#registration
    const entries = batch.map(({ entry }) => entry)
    const free = this.#registration.reportsMayClaim ? this.#options.claimable() : 0
    this.#claiming = free > 0
    const request = (): Promise<Reply> => {
      const body: Body = { now: clock.now(), entries, ...(free > 0 && { free }) }
      return client.json({ path: `/workers/${id}/report`, key: token, body, signal: ended })
    }
    try {
      const { refused, assignments = [] } = await client.withRetries("report results", ended, request)
      this.#delivered(batch, new Set(refused))
      this.#options.onAssigned(assignments)
    } catch (error) {
      if (!(error instanceof ClientError)) throw error
      if (ended.aborted) return
      if (error.status === 400 || error.status === 413) return this.#deliverSingly(batch, error)
      if (error.status !== 409) this.#logRejection(error)
      // The server will never accept these reports. Abandoning the attempts lets it assign them to others.
      this.#delivered(batch, new Set(entries.map((entry) => entry.attempt_id)))
    }
  }

  #logRejection(error: unknown): void {
    if (this.#registration.ended.aborted) return
    this.#options.log.warn({ error: messageOf(error) }, "the server rejects a report")
  }

  #delivered(batch: readonly Report[], rejected: ReadonlySet<string>): void {
    for (const { task, entry } of batch) {
      if (rejected.has(entry.attempt_id)) this.#options.onRejected(task)
      else if (entry.kind === "ended" || entry.kind === "released") this.#options.onAccepted(task)
    }
  }

  /** Delivers a batch that the server cannot parse one by one. Replaces an unacceptable result by a failure. */
  async #deliverSingly(batch: Report[], error: ClientError): Promise<void> {
    if (batch.length > 1) {
      for (const each of batch) await this.#deliver([each])
      return
    }
    const [{ task, entry }] = batch as [Report]
    if (entry.kind !== "ended") return this.#logRejection(error)
    if (entry.result.error?.startsWith(UNREPORTABLE) === true) return this.#options.onRejected(task)
    const { started_at, finished_at } = entry.result
    const result = { state: "failed", started_at, finished_at, error: UNREPORTABLE + error.message, retryable: false } as const
    await this.#deliver([{ task, entry: { ...entry, result }, bytes: 0 }])
  }
}

const UNREPORTABLE = "its result cannot be reported to the server: "

/** Returns the approximate size of what a task may make large. */
const contentLength = (entry: Entry): number => {
  if (entry.kind === "progress") return JSON.stringify(entry.details ?? null).length
  if (entry.kind !== "ended") return 0
  const { output, error = "" } = entry.result
  return error.length + (output !== undefined && "inline" in output ? (JSON.stringify(output.inline)?.length ?? 0) : 0)
}

const fence = ({ wire }: AssignedTask): { row: number; attempt_id: string; token: string } => ({
  row: wire.row,
  attempt_id: wire.attempt_id,
  token: wire.token,
})

const resultOf = (result: UploadedResult): Extract<Entry, { kind: "ended" }>["result"] => {
  const { state, startedAt, finishedAt, output, artifacts, error } = result
  const { exitCode, externalId, usage, retryable, retryAfterMs } = result
  return {
    state,
    started_at: startedAt,
    finished_at: finishedAt,
    ...(output !== undefined && { output: "inline" in output ? { inline: output.inline } : { bytes: output.bytes } }),
    ...(artifacts !== undefined && { artifacts: [...artifacts] }),
    ...(error !== undefined && { error: error.slice(0, 65_536) }),
    ...(exitCode !== undefined && { exit_code: exitCode }),
    ...(externalId !== undefined && { external_id: externalId.slice(0, 300) }),
    ...(usage !== undefined && { usage }),
    ...(retryable !== undefined && { retryable }),
    ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }),
  }
}
