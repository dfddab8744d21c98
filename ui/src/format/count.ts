// Formats counts and percentages.

/** `1,234`, `12.3k`, `4.5M`: short enough for a tile. */
export const countText = (count: number): string => {
  if (count < 10_000) return count.toLocaleString("en")
  if (count < 1_000_000) return `${trim(count / 1000)}k`
  return `${trim(count / 1_000_000)}M`
}

const trim = (value: number): string => (value >= 100 ? String(Math.round(value)) : value.toFixed(1).replace(/\.0$/, ""))

/** Never rounds to 100 % or 0 % unless the value is exact. */
export const percentText = (part: number, whole: number): string => {
  if (whole === 0) return "–"
  const percent = Math.round((100 * part) / whole)
  if (percent === 100 && part < whole) return "99 %"
  return percent === 0 && part > 0 ? "1 %" : `${percent} %`
}
