// Durations as programs write them: milliseconds, or a text with a unit.

import { durationInMs, parseDuration } from "../core/values/quantities.ts"

export type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`

/** Returns milliseconds. Throws for other values; `what` names the setting. */
export const toMs = (value: Duration, what: string): number => {
  const ms = typeof value === "number" ? durationInMs(value) : parseDuration(value)
  if (ms !== null) return ms
  throw new TypeError(
    `${what} is ${JSON.stringify(value)}, but must be milliseconds or a text such as "200ms", "30s", "5m", "2h", "3d", at most ten years`,
  )
}

export const optionalMs = (value: Duration | undefined, what: string): number | null =>
  value === undefined ? null : toMs(value, what)
