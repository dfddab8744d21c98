// The texts that the stores themselves write into rows.

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
] as const

/** 5400000 is `90m`: the largest unit that leaves nothing over. */
export const formatDuration = (ms: number): string => {
  const unit = UNITS.find(([, size]) => ms >= size && ms % size === 0)
  return unit === undefined ? `${ms / 1000}s` : `${ms / unit[1]}${unit[0]}`
}

export const timedOut = (ms: number | undefined): string =>
  ms === undefined ? "timed out" : `timed out after ${formatDuration(ms)}`

export const taskFailed = (name: string): string => `task ${name} failed`

export const blockedBy = (dependency: string): string => `the job ${dependency}, on which it depends, did not complete`
