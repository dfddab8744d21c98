// Formats durations, sizes, times and lines that fit a terminal. Pure.

/** Formats a duration with at most two units: `0.4s`, `12s`, `1m20s`, `1h05m`, `2d03h`. */
export const duration = (ms: number): string => {
  const seconds = Math.max(0, ms) / 1000
  if (seconds < 9.95) return `${seconds.toFixed(1)}s`
  const whole = Math.round(seconds)
  if (whole < 60) return `${whole}s`
  const pad = (n: number): string => String(n).padStart(2, "0")
  if (whole < 3600) return `${Math.floor(whole / 60)}m${pad(whole % 60)}s`
  const minutes = Math.floor(whole / 60)
  if (minutes < 1440) return `${Math.floor(minutes / 60)}h${pad(minutes % 60)}m`
  const hours = Math.floor(minutes / 60)
  return `${Math.floor(hours / 24)}d${pad(hours % 24)}h`
}

/** Formats the local time of day as `12:00:01`. */
export const timeOfDay = (ms: number): string => new Date(ms).toTimeString().slice(0, 8)

export const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`

const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u
const ZERO_WIDTH = /[\p{Mn}\p{Me}\u200b-\u200f\ufe0f]/u
const ASCII = /^[\x20-\x7e]*$/

const charWidth = (char: string): number => (ZERO_WIDTH.test(char) ? 0 : WIDE.test(char) ? 2 : 1)

/** Returns the number of terminal columns that a text occupies. */
export const textWidth = (text: string): number => {
  if (ASCII.test(text)) return text.length
  let width = 0
  for (const char of text) width += charWidth(char)
  return width
}

/** Truncates a text to at most `width` columns; a truncated text ends in `…`. */
export const truncate = (text: string, width: number): string => {
  if (width <= 0) return ""
  if (textWidth(text) <= width) return text
  let out = ""
  let used = 0
  for (const char of text) {
    const next = charWidth(char)
    if (used + next > width - 1) break
    out += char
    used += next
  }
  return `${out}…`
}

export const padEnd = (text: string, width: number): string => text + " ".repeat(Math.max(0, width - textWidth(text)))

// Escape sequences (CSI, OSC) and other control characters: a log line must not move the cursor.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g
const CONTROLS = /[\u0000-\u001f\u007f-\u009f]/g

/** Returns the text as one line without escape sequences and control characters. */
export const printable = (text: string): string =>
  text
    .replace(ESCAPES, "")
    .replace(/[\t\n]/g, " ")
    .replace(CONTROLS, "")

/** Aligns rows in columns, each as wide as its widest cell; the last column is not padded. */
export const table = (rows: readonly (readonly string[])[]): string[] => {
  const widths: number[] = []
  for (const row of rows) row.forEach((cell, i) => (widths[i] = Math.max(widths[i] ?? 0, textWidth(cell))))
  return rows.map((row) =>
    row
      .map((cell, i) => (i === row.length - 1 ? cell : padEnd(cell, widths[i]!)))
      .join("  ")
      .trimEnd(),
  )
}
