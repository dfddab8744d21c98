// Durations, memory sizes and CPU counts as users write them, in definitions or as results of expressions. Each parser returns
// null for other values; the caller reports what is expected, using the hint.

const UNITS_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** Ten years. Longer durations are mistakes, and would overflow timers. */
const MAX_MS = 3650 * UNITS_MS.d

export const DURATION_HINT = 'seconds or a text such as "90s", "10m", "2h", "1d", "500ms"'

const DURATION = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/

/** Parses seconds, or numbers with units (`90s`, `1h30m`), to milliseconds. */
export const parseDuration = (value: unknown): number | null => {
  if (typeof value === "number") return durationInMs(value * 1000)
  if (typeof value !== "string" || value.length > 40) return null
  const text = value.trim()
  if (/^\d+(\.\d+)?$/.test(text)) return durationInMs(Number(text) * 1000)
  const parts = text.match(/\d+(?:\.\d+)?[a-z]+/g)
  if (parts === null || parts.join("") !== text) return null
  let total = 0
  let smallest = Infinity
  for (const part of parts) {
    const match = DURATION.exec(part)
    if (match === null) return null
    const unit = UNITS_MS[match[2] as keyof typeof UNITS_MS]
    if (unit >= smallest) return null
    smallest = unit
    total += Number(match[1]) * unit
  }
  return durationInMs(total)
}

/**
 * Writes milliseconds as a user would, with the largest unit that divides them: `90m`, `500ms`, `1.5s`. `parseDuration` reads the
 * result back.
 */
export const formatDuration = (ms: number): string => {
  for (const unit of ["d", "h", "m", "s"] as const) {
    const size = UNITS_MS[unit]
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`
  }
  return ms < UNITS_MS.s ? `${ms}ms` : `${ms / UNITS_MS.s}s`
}

/** Returns whole milliseconds; null for what is no duration. */
export const durationInMs = (ms: number): number | null =>
  Number.isFinite(ms) && ms >= 0 && ms <= MAX_MS ? Math.round(ms) : null

const UNITS_BYTES: Readonly<Record<string, number>> = {
  "": 1,
  k: 1e3,
  K: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
}

export const MEMORY_HINT = 'bytes or a text such as "512Mi", "1Gi", "500M"'

/** Parses a size to bytes: `Ki Mi Gi Ti` are powers of 1024, `K M G T` powers of 1000. */
export const parseMemory = (value: unknown): number | null => {
  if (typeof value === "number") return Number.isSafeInteger(value) && value > 0 ? value : null
  if (typeof value !== "string") return null
  const match = /^(\d+(?:\.\d+)?)([kKMGT]i?)?B?$/.exec(value.trim())
  const unit = match === null ? undefined : UNITS_BYTES[match[2] ?? ""]
  if (match === null || unit === undefined) return null
  const bytes = Math.round(Number(match[1]) * unit)
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : null
}

export const CPU_HINT = 'a number of cores such as 2, 0.5 or "500m"'

/** Parses a number of cores; `500m` is half a core. */
export const parseCpu = (value: unknown): number | null => {
  if (typeof value === "number") return value > 0 && value <= 4096 ? value : null
  if (typeof value !== "string") return null
  const match = /^(\d+(?:\.\d+)?)(m)?$/.exec(value.trim())
  if (match === null) return null
  const cores = Number(match[1]) / (match[2] === "m" ? 1000 : 1)
  return cores > 0 && cores <= 4096 ? cores : null
}

const BYTE_UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"] as const

export const formatBytes = (bytes: number): string => {
  const step = bytes < 1024 ? 0 : Math.min(BYTE_UNITS.length - 1, Math.floor(Math.log2(bytes) / 10))
  return `${Math.round((bytes / 1024 ** step) * 10) / 10} ${BYTE_UNITS[step]}`
}

const SHORT_UNITS = ["B", ...BYTE_UNITS.slice(1)]

/** Formats a size for a column: about three digits. */
export const shortBytes = (bytes: number): string => {
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < SHORT_UNITS.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${SHORT_UNITS[unit]!}`
}
