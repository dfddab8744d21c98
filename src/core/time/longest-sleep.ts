// How long a loop may sleep. Timers follow a clock that never steps, while work is due at a time of day: a long wait checks the time
// again.

import type { Clock } from "../model/ports.ts"

const MAX_SLEEP_MS = 60_000

export const longestSleepMs = ({ steady }: Clock): number => (steady === true ? Number.POSITIVE_INFINITY : MAX_SLEEP_MS)
