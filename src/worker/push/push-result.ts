// Builds the result message of a pushed task within the server's limits, and delivers it until it is accepted or rejected.

import { sleep } from "../../sleep.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Json } from "../../core/values/json.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { Logger } from "../../engine/ports.ts"
import { TaskLog } from "../../objects/logs/task-log.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { executeBody, taskResultBody } from "../../protocol/api/workers.ts"
import type { z } from "zod"

type Callback = Pick<z.output<typeof executeBody>, "callback_url" | "token" | "task_instance_id">
export type ResultMessage = Omit<z.input<typeof taskResultBody>, "task_instance_id" | "token">

/** Bytes of the log's tail in a message. */
const LOG_BYTES = 128 * 1024
const OUTPUT_BYTES = 768 * 1024
/** Below the server's limit of 1 MiB per request. */
const MESSAGE_BYTES = 1_000_000
const ERROR_CHARS = 65_000
/** After this time without acceptance, the server has given the task up. */
const DELIVERY_MS = 600_000
const REQUEST_TIMEOUT_MS = 10_000
/** Statuses of a server that will never accept a result. Any other may be that of a proxy whose server is away. */
const REJECTIONS: ReadonlySet<number> = new Set([400, 401, 403, 409, 413, 415])
const FIRST_DELAY_MS = 250
const MAX_DELAY_MS = 10_000

export const resultMessage = async (objects: ObjectStore, prefix: string, result: AttemptResult): Promise<ResultMessage> => {
  const message = { ...(await outcomeOf(objects, result)), exit_code: result.exitCode ?? null }
  const log = new TaskLog(objects, prefix)
  const size = await log.size()
  if (size === 0) return message
  const available = MESSAGE_BYTES - Buffer.byteLength(JSON.stringify(message))
  const { bytes } = await log.read(Math.max(0, size - LOG_BYTES), LOG_BYTES)
  return { ...message, log: tailWithin(Buffer.from(bytes).toString("utf8"), available) }
}

const outcomeOf = async (objects: ObjectStore, { state, output, error }: AttemptResult): Promise<ResultMessage> => {
  if (state === "lost") return { status: "lost", error: "lost: the worker was stopped" }
  if (state !== "success") return { status: "failed", error: (error ?? state).slice(0, ERROR_CHARS) }
  const value =
    output === undefined || "inline" in output
      ? (output?.inline ?? null)
      : (JSON.parse(Buffer.from((await objects.get(output.key))!).toString()) as Json)
  if (Buffer.byteLength(JSON.stringify(value)) <= OUTPUT_BYTES) return { status: "success", output: value }
  return { status: "failed", error: "its output is too large for a push worker: write it to a store" }
}

/** Returns the longest tail, in steps of a quarter, that takes at most `bytes` as JSON, where a character takes up to six bytes. */
const tailWithin = (text: string, bytes: number): string => {
  let tail = text
  while (Buffer.byteLength(JSON.stringify(tail)) > bytes) tail = tail.slice(Math.ceil(tail.length / 4))
  return tail
}

export interface DeliveryOptions {
  clock: Clock
  log: Logger
  /** Aborts when the worker stops. */
  signal: AbortSignal
}

/** Retries until the server accepts the result, rejects it, or was unreachable for too long. */
export const deliverResult = async (
  callback: Callback,
  message: ResultMessage,
  { clock, log, signal }: DeliveryOptions,
): Promise<void> => {
  const { task_instance_id: task } = callback
  let current = message
  const until = clock.monotonic() + DELIVERY_MS
  for (let failures = 0; clock.monotonic() < until && !signal.aborted; failures++) {
    const response = await post(callback, current, signal)
    if (response !== null && response.status < 300) return
    if (response !== null && (response.status === 400 || response.status === 413) && current === message) {
      // The server cannot accept this message: reports that instead.
      current = { status: "failed", error: `its result cannot be reported to the server: ${response.text.slice(0, 500)}` }
      continue
    }
    if (response !== null && REJECTIONS.has(response.status)) {
      log.warn({ task, status: response.status }, "the server rejected the result of a task")
      return
    }
    await sleep(clock, Math.min(FIRST_DELAY_MS * 2 ** failures, MAX_DELAY_MS), signal)
  }
  log.warn({ task }, "failed to deliver the result of a task; the server will retry the task")
}

/** Returns null if no server responded. */
const post = async (
  { callback_url, token, task_instance_id }: Callback,
  message: ResultMessage,
  signal: AbortSignal,
): Promise<{ status: number; text: string } | null> => {
  try {
    const response = await fetch(callback_url, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: JSON.stringify({ task_instance_id, ...message }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
      redirect: "manual",
    })
    return { status: response.status, text: await response.text() }
  } catch {
    return null
  }
}
