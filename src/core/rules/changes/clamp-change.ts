// Clamps values that executors, workers and containers report to ranges that every store can write: one bad value would fail its
// batch again and again. Changes that are in range are returned as they are, without a copy.

import type { AttemptResult, Change } from "../../model/change.ts"

/** The last millisecond of the year 9999. */
const MAX_INSTANT = 253_402_300_799_999
const MAX_DELAY_MS = 100 * 365 * 86_400_000
const MAX_INT32 = 2_147_483_647
const MAX_ERROR_LENGTH = 65_536

const isInstant = (at: number): boolean => Number.isInteger(at) && at >= 0 && at <= MAX_INSTANT
const isDelay = (ms: number): boolean => ms >= 0 && ms <= MAX_DELAY_MS
const isExitCode = (code: number): boolean => Number.isInteger(code) && Math.abs(code) <= MAX_INT32

/** Returns the nearest value in 0 … max; 0 for NaN. */
const clamp = (value: number, max: number): number => (value > max ? max : value >= 0 ? value : 0)

const toInstant = (at: number): number => Math.round(clamp(at, MAX_INSTANT))

const isStorable = ({ startedAt, finishedAt, exitCode, error }: AttemptResult): boolean =>
  (startedAt === null || isInstant(startedAt)) &&
  isInstant(finishedAt) &&
  (exitCode === undefined || isExitCode(exitCode)) &&
  (error === undefined || error.length <= MAX_ERROR_LENGTH)

const clampResult = (result: AttemptResult): AttemptResult => {
  if (isStorable(result)) return result
  const { exitCode, error, ...rest } = result
  return {
    ...rest,
    startedAt: result.startedAt === null ? null : toInstant(result.startedAt),
    finishedAt: toInstant(result.finishedAt),
    ...(exitCode !== undefined && isExitCode(exitCode) && { exitCode }),
    ...(error !== undefined && { error: error.slice(0, MAX_ERROR_LENGTH) }),
  }
}

export const clampChange = (change: Change): Change => {
  switch (change.kind) {
    case "started":
      return isInstant(change.at) ? change : { ...change, at: toInstant(change.at) }
    case "finish": {
      const { result, cache } = change
      const ttlMs = cache?.ttlMs ?? null
      if (isStorable(result) && (ttlMs === null || (isDelay(ttlMs) && Number.isInteger(ttlMs)))) return change
      return {
        ...change,
        result: clampResult(result),
        ...(cache !== undefined && {
          cache: { ...cache, ttlMs: ttlMs === null ? null : Math.ceil(clamp(ttlMs, MAX_DELAY_MS)) },
        }),
      }
    }
    case "retry":
      if (isDelay(change.delayMs) && isStorable(change.result)) return change
      return { ...change, delayMs: clamp(change.delayMs, MAX_DELAY_MS), result: clampResult(change.result) }
    case "wait": {
      const { delayMs, startedAt } = change
      if ((delayMs === null || isDelay(delayMs)) && (startedAt === undefined || isInstant(startedAt))) return change
      return {
        ...change,
        delayMs: delayMs === null ? null : clamp(delayMs, MAX_DELAY_MS),
        ...(startedAt !== undefined && { startedAt: toInstant(startedAt) }),
      }
    }
    default:
      return change
  }
}
