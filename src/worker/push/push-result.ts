// The result of a pushed task on its way back: as a message that fits the server's limits, and told until it was taken or refused.

import type { AttemptResult } from "../../core/model/change.ts"
import type { Json } from "../../core/model/json.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { Logger } from "../../engine/ports.ts"
import { TaskLog } from "../../objects/logs/logs.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { executeBody, taskResultBody } from "../../protocol/api/workers.ts"
import type { z } from "zod"
import { sleep } from "../connection/sleep.ts"

type Pushed = Pick<z.output<typeof executeBody>, "callback_url" | "token" | "task_instance_id">
export type ResultMessage = Omit<z.input<typeof taskResultBody>, "task_instance_id" | "token">

/** Of the log that goes with a result, from its end. */
const LOG_BYTES = 128 * 1024
/** Results are requests of at most 1 MiB. */
const OUTPUT_BYTES = 768 * 1024
const MESSAGE_BYTES = 1_000_000
const ERROR_CHARS = 65_000
/** A server that does not take a result for so long has given the task up. */
const CALLBACK_MS = 600_000
const CALLBACK_TIMEOUT_MS = 10_000
const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 10_000

export const resultMessage = async (objects: ObjectStore, prefix: string, result: AttemptResult): Promise<ResultMessage> => {
  const message = { ...(await endOf(objects, result)), exit_code: result.exitCode ?? null }
  const log = new TaskLog(objects, prefix)
  const size = await log.size()
  if (size === 0) return message
  const room = MESSAGE_BYTES - Buffer.byteLength(JSON.stringify(message))
  const { bytes } = await log.read(Math.max(0, size - LOG_BYTES), LOG_BYTES)
  return { ...message, log: endWithin(Buffer.from(bytes).toString("utf8"), room) }
}

const endOf = async (objects: ObjectStore, { state, output, error }: AttemptResult): Promise<ResultMessage> => {
  if (state === "lost") return { status: "lost", error: "lost: the worker was stopped" }
  if (state !== "success") return { status: "failed", error: (error ?? state).slice(0, ERROR_CHARS) }
  const value =
    output === undefined || "inline" in output
      ? (output?.inline ?? null)
      : (JSON.parse(Buffer.from((await objects.get(output.key))!).toString()) as Json)
  if (Buffer.byteLength(JSON.stringify(value)) <= OUTPUT_BYTES) return { status: "success", output: value }
  return { status: "failed", error: "its output is too large for a worker that is pushed to: write it to a store" }
}

/** As much of the end of a text as takes no more bytes than these as JSON: what is not a letter takes up to six. */
const endWithin = (text: string, bytes: number): string => {
  let rest = text
  while (Buffer.byteLength(JSON.stringify(rest)) > bytes) rest = rest.slice(Math.ceil(rest.length / 4))
  return rest
}

export interface DeliveryOptions {
  clock: Clock
  log: Logger
  /** The worker ends and can wait no longer. */
  signal: AbortSignal
}

/** Until the server took it, does not know the task any more, or was out of reach for long. */
export const deliverResult = async (
  pushed: Pushed,
  message: ResultMessage,
  { clock, log, signal }: DeliveryOptions,
): Promise<void> => {
  const { callback_url, token, task_instance_id } = pushed
  const headers = { "content-type": "application/json", authorization: `Bearer ${token}` }
  const post = async (told: ResultMessage): Promise<{ status: number; text: string } | null> => {
    const body = JSON.stringify({ task_instance_id, ...told })
    const late = AbortSignal.any([signal, AbortSignal.timeout(CALLBACK_TIMEOUT_MS)])
    try {
      const answer = await fetch(callback_url, { method: "POST", headers, body, signal: late, redirect: "manual" })
      return { status: answer.status, text: await answer.text() }
    } catch {
      return null
    }
  }
  let told = message
  const until = clock.now() + CALLBACK_MS
  for (let failures = 0; clock.now() < until && !signal.aborted; failures++) {
    const answer = await post(told)
    if (answer !== null && answer.status < 300) return
    if (answer !== null && (answer.status === 400 || answer.status === 413) && told === message) {
      // It cannot be told as it is: then at least that.
      told = { status: "failed", error: `its result cannot be told to the server: ${answer.text.slice(0, 500)}` }
      continue
    }
    if (answer !== null && answer.status < 500 && answer.status !== 429) {
      log.warn({ task: task_instance_id, status: answer.status }, "the server refused the result of a task")
      return
    }
    await sleep(clock, Math.min(FIRST_WAIT_MS * 2 ** failures, MAX_WAIT_MS), signal)
  }
  log.warn({ task: task_instance_id }, "the result of a task was not told: the server did not take it; it tries the task again")
}
