// Formats instants and durations. Pure: the current time is an argument. Absolute times are in the user's time zone.

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** Returns `4 min ago`, `in 2 h`; days only up to a month, then the date. */
export const relativeTime = (at: number, now: number): string => {
  const distance = Math.abs(now - at)
  if (distance < 3 * SECOND) return "now"
  const text = roughly(distance)
  if (text === null) return dayText(at, now)
  return at <= now ? `${text} ago` : `in ${text}`
}

const roughly = (ms: number): string | null => {
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h`
  if (ms < 30 * DAY) return plural(Math.floor(ms / DAY), "day")
  return null
}

export const plural = (count: number, noun: string): string => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`

const two = (value: number): string => String(value).padStart(2, "0")

/** Returns `12 Nov`, with the year if it is not the current one. */
export const dayText = (at: number, now: number): string => {
  const date = new Date(at)
  const text = `${date.getDate()} ${MONTHS[date.getMonth()]!}`
  return date.getFullYear() === new Date(now).getFullYear() ? text : `${text} ${date.getFullYear()}`
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
export const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]

export const clockText = (at: number, withSeconds = false): string => {
  const date = new Date(at)
  return `${two(date.getHours())}:${two(date.getMinutes())}${withSeconds ? `:${two(date.getSeconds())}` : ""}`
}

/** Returns `2026-11-15 06:01:12.345 +01:00` in the user's time zone, for titles and copying; a whole second has no fraction. */
export const absoluteTime = (at: number): string => {
  const date = new Date(at)
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
  const ms = date.getMilliseconds()
  const fraction = ms === 0 ? "" : `.${String(ms).padStart(3, "0")}`
  return `${day} ${clockText(at, true)}${fraction} ${zoneText(-date.getTimezoneOffset())}`
}

const zoneText = (minutes: number): string => {
  if (minutes === 0) return "UTC"
  const size = Math.abs(minutes)
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`
}

/** Returns `340 ms`, `4.2 s`, `1 min 20 s`, `2 h 5 min`, `3 d 4 h`. */
export const durationText = (ms: number): string => {
  const length = Math.max(0, ms)
  if (length < SECOND) return `${Math.round(length)} ms`
  if (length < 10 * SECOND) return `${(Math.floor(length / 100) / 10).toFixed(1)} s`
  if (length < MINUTE) return `${Math.floor(length / SECOND)} s`
  if (length < HOUR) return pair(length, MINUTE, "min", SECOND, "s")
  if (length < DAY) return pair(length, HOUR, "h", MINUTE, "min")
  return pair(length, DAY, "d", HOUR, "h")
}

const pair = (ms: number, large: number, largeName: string, small: number, smallName: string): string => {
  const whole = Math.floor(ms / large)
  const rest = Math.floor((ms % large) / small)
  return rest === 0 ? `${whole} ${largeName}` : `${whole} ${largeName} ${rest} ${smallName}`
}
