// Sends the logs of attempts to the server: new chunks within half a second while they are written, the rest before the result is
// reported. A batch holds whole chunks of several logs, in order; a batch without a response is sent again unchanged.

import { existsSync } from "node:fs"
import type { Registration } from "./registration.ts"
import type { ServerClient } from "./server-client.ts"
import type { AssignedTask } from "../tasks/assigned-task.ts"
import { messageOf } from "../../core/values/error-message.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { Logger } from "../../engine/ports.ts"
import { fitRecords } from "../../objects/logs/log-index.ts"
import { logKey } from "../../objects/logs/log-keys.ts"
import { readRangeOrEmpty } from "../../objects/shared/read-range.ts"
import { encodeFrame, RECORD_BYTES } from "../../protocol/wire/log-frames.ts"

const INTERVAL_MS = 500
const BATCH_BYTES = 3 << 20
const READ_RECORDS = 4096
/** Reads of a log that may fail in a row. */
const MAX_FAILURES = 20

export interface LogShipperOptions {
  client: ServerClient
  clock: Clock
  log: Logger
  /** Returns the path of an object on this machine. */
  localPath(key: string): string
}

interface OpenLog {
  task: AssignedTask
  path: string
  /** Frames, bytes of the log and records of its index that the server has received. */
  frames: number
  bytes: number
  records: number
  /** Reads of this machine's files that have failed in a row. */
  failures: number
  /** Set when nothing more is written; called when everything was sent, or with why it cannot be read. */
  done: ((problem?: Error) => void) | null
}

/** New chunks of one log. */
interface Frame {
  log: OpenLog
  bytes: number
  records: number
  buffers: Buffer[]
}

export class LogShipper {
  readonly #options: LogShipperOptions
  readonly #registration: Registration
  readonly #logs = new Map<AssignedTask, OpenLog>()
  #scheduled = false
  #sending = false
  #sendAgain = false

  constructor(registration: Registration, options: LogShipperOptions) {
    this.#registration = registration
    this.#options = options
  }

  add(task: AssignedTask): void {
    const path = this.#options.localPath(logKey(task.work.prefix))
    this.#logs.set(task, { task, path, frames: 0, bytes: 0, records: 0, failures: 0, done: null })
    this.#schedule()
  }

  /** Resolves when the server has received the whole log, or rejects it. Rejects when the log cannot be read. */
  async finish(task: AssignedTask): Promise<void> {
    const log = this.#logs.get(task)
    if (log === undefined) return
    const { ended } = this.#registration
    if (existsSync(log.path) && !ended.aborted) {
      const sent = new Promise<void>((resolve, reject) => {
        log.done = (problem) => (problem === undefined ? resolve() : reject(problem))
        ended.addEventListener("abort", () => resolve(), { once: true })
        void this.#sendAll()
      })
      await sent.finally(() => void this.#logs.delete(task))
    }
    this.#logs.delete(task)
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.#options.clock.after(INTERVAL_MS, () => {
      this.#scheduled = false
      if (this.#logs.size === 0 || this.#registration.ended.aborted) return
      void this.#sendAll()
      this.#schedule()
    })
  }

  /** Sends batches until no log has new chunks. */
  async #sendAll(): Promise<void> {
    this.#sendAgain = true
    if (this.#sending) return
    this.#sending = true
    try {
      while (this.#sendAgain && !this.#registration.ended.aborted) {
        this.#sendAgain = false
        const frames = await this.#collect()
        if (frames.length > 0) {
          await this.#send(frames)
          this.#sendAgain = true
        }
      }
    } catch (error) {
      // The registration has ended or the server rejects the logs: no log can be finished any more.
      for (const log of this.#logs.values()) log.done?.()
      if (this.#registration.ended.aborted) return
      this.#options.log.warn({ error: messageOf(error) }, "the server rejects logs")
    } finally {
      this.#sending = false
    }
  }

  /** Reads new chunks of all logs, up to the size of a batch. Finishes logs that are complete. */
  async #collect(): Promise<Frame[]> {
    const frames: Frame[] = []
    let bytes = 0
    const logs = [...this.#logs.values()]
    for (const log of logs) {
      if (bytes >= BATCH_BYTES) {
        this.#sendAgain = true
        break
      }
      const ending = log.done !== null
      const frame = existsSync(log.path) ? await this.#read(log, BATCH_BYTES - bytes, ending) : null
      if (frame === "unreadable") continue
      if (frame !== null) {
        frames.push(frame)
        bytes += frame.bytes
      } else if (ending) log.done?.()
    }
    return frames
  }

  /** Reads again later what cannot be read now, such as for lack of descriptors; gives up at the end of the task after a while. */
  async #read(log: OpenLog, maxBytes: number, ending: boolean): Promise<Frame | "unreadable" | null> {
    try {
      const frame = await readFrame(log, maxBytes, ending)
      log.failures = 0
      return frame
    } catch (error) {
      log.failures += 1
      if (log.failures >= MAX_FAILURES)
        log.done?.(new Error(`its log could not be read: ${messageOf(error)}`, { cause: error }))
      return "unreadable"
    }
  }

  async #send(frames: readonly Frame[]): Promise<void> {
    const { client } = this.#options
    const { id, token, ended } = this.#registration
    const bytes = Buffer.concat(frames.flatMap(({ buffers }) => buffers))
    const request = (): Promise<{ logs: { attempt_id: string; next: number | null }[] }> =>
      client.json({ path: `/workers/${id}/logs`, key: token, bytes, signal: ended })
    const { logs } = await client.withRetries("send logs", ended, request)
    for (const [i, frame] of frames.entries()) this.#sent(frame, logs[i]?.next ?? null)
  }

  /** Records a sent frame. `next`: offset that the server expects next; null if it rejects the log. */
  #sent({ log, bytes, records }: Frame, next: number | null): void {
    if (next === null) {
      log.done?.()
      this.#logs.delete(log.task)
    } else if (next === log.bytes + bytes) {
      log.frames += 1
      log.bytes += bytes
      log.records += records
    } else {
      // This server lacks a part: sends the log again from its beginning.
      log.frames = log.bytes = log.records = 0
    }
  }
}

/** Reads the next whole chunks, at the end of a log also bytes without a record. Returns null if there is nothing new. */
const readFrame = async (log: OpenLog, maxBytes: number, ending: boolean): Promise<Frame | null> => {
  const index = await readRangeOrEmpty(`${log.path}.idx`, log.records * RECORD_BYTES, READ_RECORDS * RECORD_BYTES)
  const { count, bytes } = fitRecords(index, maxBytes)
  const raw = await readRangeOrEmpty(log.path, log.bytes, count > 0 ? bytes : ending ? maxBytes : 0)
  if (raw.length === 0 || (count > 0 && raw.length < bytes)) return null
  const { row, attempt_id, token } = log.task.wire
  const header = { row, attempt_id, token, number: log.frames + 1, offset: log.bytes, record: log.records }
  return { log, bytes: raw.length, records: count, buffers: encodeFrame(header, index.subarray(0, count * RECORD_BYTES), raw) }
}
