// `ork queues`: lists queues with their depth, age and limits. `ork queues set`: sets limits, pauses and resumes.

import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { InputError } from "../../terminal/errors.ts"
import { printListing } from "../../terminal/listing.ts"
import { parseWholeNumber } from "../../terminal/option-values.ts"
import { printJson } from "../../terminal/output.ts"
import { duration } from "../../terminal/text.ts"
import { omitUndefined } from "../../../core/values/omit-undefined.ts"
import { DURATION_HINT, parseDuration } from "../../../core/values/quantities.ts"
import type { Queue, QueueSettings } from "../../../protocol/client/client.ts"

const printQueues = (context: Context, options: ServerFlags, items: readonly Queue[]): number =>
  printListing(context, options, {
    items,
    none: "no queues: none has work or settings",
    header: ["queue", "ready", "running", "oldest", "concurrency", "rate", "state"],
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

export const listQueues = async (context: Context, options: ServerFlags): Promise<number> =>
  printQueues(context, options, await (await connect(context, options)).listQueues())

export interface SetQueueOptions extends ServerFlags {
  concurrency?: string
  rate?: string
  pause?: boolean
  resume?: boolean
}

export const setQueue = async (context: Context, name: string, options: SetQueueOptions): Promise<number> => {
  if (options.pause === true && options.resume === true) throw new InputError("--pause and --resume contradict each other")
  const { concurrency, rate, pause, resume } = options
  const settings: QueueSettings = omitUndefined({
    concurrency: concurrency === undefined ? undefined : parseConcurrency(concurrency),
    rate_limit: rate === undefined ? undefined : parseRate(rate),
    paused: pause === true ? true : resume === true ? false : undefined,
  })
  if (Object.keys(settings).length === 0) throw new InputError("name a setting: --concurrency, --rate, --pause or --resume")
  const queue = await (await connect(context, options)).setQueue(name, settings)
  if (options.json !== true) return printQueues(context, {}, [queue])
  printJson(context, queue)
  return 0
}

const parseConcurrency = (text: string): number | null =>
  text === "none" ? null : parseWholeNumber("--concurrency", text, 1, 1_000_000)

/** Parses `10/1m`, or `none` as null. */
const parseRate = (text: string): NonNullable<QueueSettings["rate_limit"]> | null => {
  if (text === "none") return null
  const [count = "", period = ""] = text.split("/")
  const ms = parseDuration(period)
  if (!/^[1-9]\d{0,6}$/.test(count) || ms === null || ms <= 0) {
    throw new InputError(`--rate: "${text}" is not none, or a count and a period such as 10/1m (${DURATION_HINT})`)
  }
  return { limit: Number(count), period_seconds: ms / 1000 }
}
