// The stall limit of a program: how long its handlers may block the event loop.

import { MIN_STALL_LIMIT_MS, STALL_LIMIT_MS } from "../core/settings/leases.ts"
import { type Duration, toMs } from "./duration.ts"

/** Returns milliseconds. */
export const stallMsOf = (given: Duration = STALL_LIMIT_MS): number => {
  const ms = toMs(given, "stallLimit")
  if (ms >= MIN_STALL_LIMIT_MS) return ms
  throw new TypeError(`stallLimit is ${JSON.stringify(given)}, but must be at least 1 second`)
}
