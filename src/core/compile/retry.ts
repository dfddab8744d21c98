// `retries` and `retry` as one policy. Defaults: exponential, 1s, at most 5m, no jitter, one attempt.

import type { TaskDefinition } from "../model/definition.ts"
import type { Path } from "../model/problems.ts"
import { DURATION_HINT, parseDuration } from "../model/quantities.ts"
import type { RetryPolicy } from "../model/workflow.ts"
import type { Context } from "./context.ts"

const BASE_MS = 1000
const MAX_MS = 300_000

export const compileRetry = (context: Context, { retries, retry = {} }: TaskDefinition, path: Path): RetryPolicy => {
  const delay = (field: "base_delay" | "max_delay"): number | undefined => {
    if (retry[field] === undefined) return undefined
    const ms = parseDuration(retry[field])
    if (ms === null) context.problems.add([...path, "retry", field], `must be a duration: ${DURATION_HINT}`)
    return ms ?? undefined
  }
  const baseDelayMs = delay("base_delay") ?? BASE_MS
  const maxDelayMs = delay("max_delay")
  if (maxDelayMs !== undefined && maxDelayMs < baseDelayMs) {
    context.problems.add([...path, "retry", "max_delay"], "must not be less than base_delay")
  }
  return {
    maxAttempts: retry.max_attempts ?? (retries ?? 0) + 1,
    backoff: retry.backoff ?? "exponential",
    baseDelayMs,
    maxDelayMs: maxDelayMs ?? Math.max(MAX_MS, baseDelayMs),
    jitter: retry.jitter ?? false,
  }
}
