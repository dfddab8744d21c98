// Settings of queues in ork.yaml (or as JSON in ORK_QUEUES), with the field names of the API. A server applies them at start.

import { isObject } from "../values/json.ts"
import { mapSetting } from "./map-setting.ts"
import { QUEUE_NAME } from "../model/names.ts"

/** Absent fields keep their current value. */
interface QueueSettings {
  concurrency?: number | null
  rate?: { limit: number; periodMs: number } | null
  paused?: boolean
}

export type QueueConfig = { [queue: string]: QueueSettings }

export const QUEUES_HINT =
  "a map of queues, each with concurrency (a whole number), rate_limit ({ limit, period_seconds }) and paused (true or false)"

export const parseQueues = (value: unknown): QueueConfig | null => {
  const map = mapSetting(value)
  if (map === null) return null
  const queues: QueueConfig = {}
  for (const [name, settings] of Object.entries(map)) {
    const parsed = QUEUE_NAME.test(name) ? parseQueue(settings) : null
    if (parsed === null) return null
    queues[name] = parsed
  }
  return queues
}

const isCount = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value) && value >= 1

const parseQueue = (value: unknown): QueueSettings | null => {
  if (!isObject(value)) return null
  const settings: QueueSettings = {}
  for (const [field, setting] of Object.entries(value)) {
    if (field === "concurrency" && (setting === null || isCount(setting))) settings.concurrency = setting
    else if (field === "paused" && typeof setting === "boolean") settings.paused = setting
    else if (field === "rate_limit" && (setting === null || isRate(setting))) {
      settings.rate = setting === null ? null : { limit: setting.limit, periodMs: Math.round(setting.period_seconds * 1000) }
    } else return null
  }
  return settings
}

const isRate = (value: unknown): value is { limit: number; period_seconds: number } =>
  isObject(value) && isCount(value["limit"]) && typeof value["period_seconds"] === "number" && value["period_seconds"] >= 0.001
