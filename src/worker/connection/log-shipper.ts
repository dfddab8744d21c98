// Sends the logs of attempts on while they are being written: what is new at most half a second later, the rest before the end is told.
// Whole chunks, in order, a batch of several logs at a time; a batch that was not answered is sent again as it was.

import { existsSync } from "node:fs"
import type { ServerClient } from "./server-client.ts"
import type { ServerError } from "./server-error.ts"
import type { Registration } from "./session.ts"
import type { AssignedTask } from "../tasks/assigned-task.ts"
import type { Clock } from "../../core/model/ports.ts"
import { logKey } from "../../objects/logs/log-names.ts"
import { readSome } from "../../objects/read-range.ts"
import { encodeFrame, RECORD_BYTES } from "../../protocol/wire/log-frames.ts"

const LOOK_MS = 500
const BATCH_BYTES = 3 << 20
const READ_RECORDS = 4096

export interface LogShipperOptions {
  link: ServerClient
  clock: Clock
  /** Where the object lies on this machine. */
  localPath(key: string): string
  trouble(error: ServerError): void
}

interface Open {
  task: AssignedTask
  path: string
  /** What the server has: pieces, bytes of the log, records of its index. */
  number: number
  bytes: number
  records: number
  /** Set when nothing more is written. */
  done: (() => void) | null
}

interface Piece {
  log: Open
  bytes: number
  records: number
  buffers: Buffer[]
}

export class LogShipper {
  readonly #options: LogShipperOptions
  readonly #session: Registration
  readonly #open = new Map<AssignedTask, Open>()
  #planned = false
  #pumping = false
  #again = false

  constructor(session: Registration, options: LogShipperOptions) {
    this.#session = session
    this.#options = options
  }

  add(task: AssignedTask): void {
    const path = this.#options.localPath(logKey(task.work.prefix))
    this.#open.set(task, { task, path, number: 0, bytes: 0, records: 0, done: null })
    this.#plan()
  }

  /** Resolves when the server has all of it, or does not want it. */
  async finish(task: AssignedTask): Promise<void> {
    const log = this.#open.get(task)
    if (log === undefined) return
    if (existsSync(log.path) && !this.#session.ended.aborted) {
      await new Promise<void>((resolve) => {
        log.done = resolve
        this.#session.ended.addEventListener("abort", () => resolve(), { once: true })
        void this.#pump()
      })
    }
    this.#open.delete(task)
  }

  #plan(): void {
    if (this.#planned) return
    this.#planned = true
    this.#options.clock.after(LOOK_MS, () => {
      this.#planned = false
      if (this.#open.size === 0 || this.#session.ended.aborted) return
      void this.#pump()
      this.#plan()
    })
  }

  async #pump(): Promise<void> {
    this.#again = true
    if (this.#pumping) return
    this.#pumping = true
    try {
      while (this.#again && !this.#session.ended.aborted) {
        this.#again = false
        const pieces = await this.#collect()
        if (pieces.length > 0) {
          await this.#send(pieces)
          this.#again = true
        }
      }
    } catch (error) {
      // The session is over, or the server will not have it: nobody waits for these logs any more.
      for (const log of this.#open.values()) log.done?.()
      if (!this.#session.ended.aborted) this.#options.trouble(error as ServerError)
    } finally {
      this.#pumping = false
    }
  }

  /** What is new in any log, up to a batch. A log that is done and has nothing new is finished. */
  async #collect(): Promise<Piece[]> {
    const pieces: Piece[] = []
    let bytes = 0
    const logs = [...this.#open.values()]
    for (const log of logs) {
      if (bytes >= BATCH_BYTES) {
        this.#again = true
        break
      }
      const ending = log.done !== null
      const piece = existsSync(log.path) ? await readPiece(log, BATCH_BYTES - bytes, ending) : null
      if (piece !== null) {
        pieces.push(piece)
        bytes += piece.bytes
      } else if (ending) log.done?.()
    }
    return pieces
  }

  async #send(pieces: readonly Piece[]): Promise<void> {
    const { link, trouble } = this.#options
    const { id, token, ended } = this.#session
    const body = Buffer.concat(pieces.flatMap(({ buffers }) => buffers))
    const request = { path: `/workers/${id}/logs`, key: token, bytes: body, signal: ended }
    const { logs } = await link.withRetries(
      () => link.json<{ logs: { attempt_id: string; next: number | null }[] }>(request),
      ended,
      trouble,
    )
    pieces.forEach(({ log, bytes, records }, i) => {
      const next = logs[i]?.next ?? null
      if (next === null) {
        log.done?.()
        this.#open.delete(log.task)
      } else if (next === log.bytes + bytes) {
        log.number += 1
        log.bytes += bytes
        log.records += records
      } else log.number = log.bytes = log.records = 0 // This server lacks a part of it: all of it again.
    })
  }
}

/** The next whole chunks; at the end also bytes that have no record. null: nothing new. */
const readPiece = async (log: Open, most: number, ending: boolean): Promise<Piece | null> => {
  const index = await readSome(`${log.path}.idx`, log.records * RECORD_BYTES, READ_RECORDS * RECORD_BYTES)
  let count = 0
  let bytes = 0
  for (; (count + 1) * RECORD_BYTES <= index.length; count++) {
    const length = index.readUInt32LE(count * RECORD_BYTES + 16)
    if (count > 0 && bytes + length > most) break
    bytes += length
  }
  const raw = await readSome(log.path, log.bytes, count > 0 ? bytes : ending ? most : 0)
  if (raw.length === 0 || (count > 0 && raw.length < bytes)) return null
  const { row, attempt_id, token } = log.task.wire
  const header = { row, attempt_id, token, number: log.number + 1, offset: log.bytes, record: log.records }
  return { log, bytes: raw.length, records: count, buffers: encodeFrame(header, index.subarray(0, count * RECORD_BYTES), raw) }
}
