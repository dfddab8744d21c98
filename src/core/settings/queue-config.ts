// Settings of queues in ork.yaml (or as JSON in ORK_QUEUES), in the API's shape. A server applies them when it starts.

import { isObject } from "../model/json.ts"
import { JOB_LIMITS } from "../rules/jobs.ts"

/** What is not said stays as it is. */
interface QueueSettings {
  concurrency?: number | null
  rate?: { limit: number; periodMs: number } | null
  paused?: boolean
}

export type QueueConfig = { [queue: string]: QueueSettings }

export const QUEUES_HINT =
  "a map of queues, each with concurrency (a whole number), rate_limit ({ limit, period_seconds }) and paused (true or false)"

/** null: not understood. */
export const parseQueues = (value: unknown): QueueConfig | null => {
  const given = typeof value === "string" ? parseJson(value) : value
  if (!isObject(given)) return null
  const queues: QueueConfig = {}
  for (const [name, settings] of Object.entries(given)) {
    const parsed = JOB_LIMITS.queue.test(name) ? parseQueue(settings) : null
    if (parsed === null) return null
    queues[name] = parsed
  }
  return queues
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}

const isCount = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value) && value >= 1

const parseQueue = (value: unknown): QueueSettings | null => {
  if (!isObject(value)) return null
  const settings: QueueSettings = {}
  for (const [field, given] of Object.entries(value)) {
    if (field === "concurrency" && (given === null || isCount(given))) settings.concurrency = given
    else if (field === "paused" && typeof given === "boolean") settings.paused = given
    else if (field === "rate_limit" && (given === null || isRate(given))) {
      settings.rate = given === null ? null : { limit: given.limit, periodMs: Math.round(given.period_seconds * 1000) }
    } else return null
  }
  return settings
}

const isRate = (value: unknown): value is { limit: number; period_seconds: number } =>
  isObject(value) && isCount(value["limit"]) && typeof value["period_seconds"] === "number" && value["period_seconds"] >= 0.001
