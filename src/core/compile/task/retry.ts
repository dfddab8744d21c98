// Compiles `retries` and `retry` to one policy.

import type { TaskDefinition } from "../../model/definition.ts"
import type { Path } from "../../model/problems.ts"
import type { RetryPolicy } from "../../model/workflow.ts"
import type { CompileContext } from "../context/context.ts"
import { compileDuration } from "../context/duration.ts"

const DEFAULT_BASE_DELAY_MS = 1000
const DEFAULT_MAX_DELAY_MS = 300_000

export const compileRetry = (context: CompileContext, { retries, retry = {} }: TaskDefinition, path: Path): RetryPolicy => {
  const delay = (field: "base_delay" | "max_delay"): number | undefined =>
    compileDuration(context, retry[field], [...path, "retry", field], 0)
  const baseDelayMs = delay("base_delay") ?? DEFAULT_BASE_DELAY_MS
  const maxDelayMs = delay("max_delay")
  if (maxDelayMs !== undefined && maxDelayMs < baseDelayMs) {
    context.problems.add([...path, "retry", "max_delay"], "must not be less than base_delay")
  }
  return {
    maxAttempts: retry.max_attempts ?? (retries ?? 0) + 1,
    backoff: retry.backoff ?? "exponential",
    baseDelayMs,
    maxDelayMs: maxDelayMs ?? Math.max(DEFAULT_MAX_DELAY_MS, baseDelayMs),
    jitter: retry.jitter ?? false,
  }
}
