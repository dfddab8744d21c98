// `ork queues`: how deep and how old they are, and `ork queues set`: how much at once, how fast, and whether they rest.

import type { Context } from "../target/backends.ts"
import { connect, type ServerFlags } from "../target/connect.ts"
import { InputError } from "../terminal/errors.ts"
import { printListing } from "../terminal/listing.ts"
import { wholeNumber } from "../terminal/numbers.ts"
import { printJson } from "../terminal/output.ts"
import { duration } from "../terminal/text.ts"
import { DURATION_HINT, parseDuration } from "../../core/model/quantities.ts"
import type { Queue, QueueSettings } from "../../protocol/client/client.ts"

export interface QueuesOptions extends ServerFlags {
  json?: boolean
}

const printQueues = (context: Context, json: boolean, items: readonly Queue[]): void =>
  printListing(context, json, {
    items,
    none: "no queues: nothing was put into one, and none has settings",
    header: ["queue", "ready", "running", "oldest", "at once", "rate", "state"],
    row: (queue) => [
      queue.name,
      String(queue.ready),
      String(queue.running),
      queue.oldest_ready_seconds === null ? "" : duration(queue.oldest_ready_seconds * 1000),
      queue.concurrency === null ? "no limit" : String(queue.concurrency),
      queue.rate_limit === null
        ? "no limit"
        : `${queue.rate_limit.limit} per ${duration(queue.rate_limit.period_seconds * 1000)}`,
      queue.paused ? "paused" : "open",
    ],
  })

export const listQueues = async (context: Context, options: QueuesOptions): Promise<number> => {
  printQueues(context, options.json === true, await (await connect(context, options)).listQueues())
  return 0
}

export interface SetQueueOptions extends QueuesOptions {
  concurrency?: string
  rate?: string
  pause?: boolean
  resume?: boolean
}

export const setQueue = async (context: Context, name: string, options: SetQueueOptions): Promise<number> => {
  if (options.pause === true && options.resume === true) throw new InputError("--pause and --resume contradict each other")
  const settings: QueueSettings = {
    ...(options.concurrency !== undefined && { concurrency: concurrencyOf(options.concurrency) }),
    ...(options.rate !== undefined && { rate_limit: rateOf(options.rate) }),
    ...(options.pause === true && { paused: true }),
    ...(options.resume === true && { paused: false }),
  }
  if (Object.keys(settings).length === 0) throw new InputError("say what to set: --concurrency, --rate, --pause or --resume")
  const queue = await (await connect(context, options)).setQueue(name, settings)
  if (options.json === true) printJson(context, queue)
  else printQueues(context, false, [queue])
  return 0
}

const concurrencyOf = (text: string): number | null =>
  text === "none" ? null : wholeNumber("--concurrency", text, 1, 1_000_000)!

/** `10/1m`. */
const rateOf = (text: string): NonNullable<QueueSettings["rate_limit"]> | null => {
  if (text === "none") return null
  const [count = "", period = ""] = text.split("/")
  const ms = parseDuration(period)
  if (!/^[1-9]\d{0,6}$/.test(count) || ms === null || ms <= 0) {
    throw new InputError(`--rate: "${text}" is not none, or a count and a time such as 10/1m (${DURATION_HINT})`)
  }
  return { limit: Number(count), period_seconds: ms / 1000 }
}
