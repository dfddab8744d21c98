// Holds what executors, workers and containers say to what every store can write. A number out of range would fail the whole batch
// that carries it, again and again; here it becomes the nearest one that makes sense. What is sound already is not copied.

import type { AttemptResult, Change } from "../model/change.ts"

/** The last millisecond of the year 9999. */
const LAST_INSTANT = 253_402_300_799_999
const LONGEST_DELAY = 100 * 365 * 86_400_000
const INT32 = 2_147_483_647
const LONGEST_ERROR = 65_536

const isInstant = (at: number): boolean => at >= 0 && at <= LAST_INSTANT
const isDelay = (ms: number): boolean => ms >= 0 && ms <= LONGEST_DELAY

const instant = (at: number): number => (at > LAST_INSTANT ? LAST_INSTANT : at >= 0 ? at : 0)
const delay = (ms: number): number => (ms > LONGEST_DELAY ? LONGEST_DELAY : ms >= 0 ? ms : 0)

const isSound = ({ startedAt, finishedAt, exitCode, error }: AttemptResult): boolean =>
  (startedAt === null || isInstant(startedAt)) &&
  isInstant(finishedAt) &&
  (exitCode === undefined || (Number.isInteger(exitCode) && Math.abs(exitCode) <= INT32)) &&
  (error === undefined || error.length <= LONGEST_ERROR)

const soundResult = (result: AttemptResult): AttemptResult => {
  if (isSound(result)) return result
  const { exitCode, error, ...rest } = result
  return {
    ...rest,
    startedAt: result.startedAt === null ? null : instant(result.startedAt),
    finishedAt: instant(result.finishedAt),
    ...(exitCode !== undefined && Number.isInteger(exitCode) && Math.abs(exitCode) <= INT32 && { exitCode }),
    ...(error !== undefined && { error: error.slice(0, LONGEST_ERROR) }),
  }
}

export const clampChange = (change: Change): Change => {
  switch (change.kind) {
    case "started":
      return isInstant(change.at) ? change : { ...change, at: instant(change.at) }
    case "finish":
      return isSound(change.result) ? change : { ...change, result: soundResult(change.result) }
    case "retry":
      if (isDelay(change.delayMs) && isSound(change.result)) return change
      return { ...change, delayMs: delay(change.delayMs), result: soundResult(change.result) }
    case "wait": {
      const { delayMs, startedAt } = change
      if ((delayMs === null || isDelay(delayMs)) && (startedAt === undefined || isInstant(startedAt))) return change
      return {
        ...change,
        delayMs: delayMs === null ? null : delay(delayMs),
        ...(startedAt !== undefined && { startedAt: instant(startedAt) }),
      }
    }
    default:
      return change
  }
}
