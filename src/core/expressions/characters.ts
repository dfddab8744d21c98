// Text functions of expressions. They count characters (code points), as CEL does, where JavaScript counts UTF-16 units.

const outOfBounds = (index: number, length: number): Error => new Error(`index ${index} out of bounds [0, ${length}]`)

/** Converts a position in characters to one in UTF-16 units. */
export const unitsAt = (text: string, position: number): number => {
  const points = [...text]
  if (position < 0 || position > points.length) throw outOfBounds(position, points.length)
  return points.slice(0, position).join("").length
}

/** Converts a position in UTF-16 units to one in characters; -1 stays -1. */
export const pointsAt = (text: string, units: number): bigint =>
  units === -1 ? -1n : BigInt(Array.from(text.slice(0, units)).length)

export const substring = (text: string, start: number, end = Number.POSITIVE_INFINITY): string => {
  const points = [...text]
  const last = Math.min(end, points.length)
  if (start < 0 || start > points.length) throw outOfBounds(start, points.length)
  if (end !== Number.POSITIVE_INFINITY && (end < start || end > points.length)) throw outOfBounds(end, points.length)
  return points.slice(start, last).join("")
}

/** Splits a text into at most `limit` parts; the last one contains the rest. A negative limit is none. */
export const split = (text: string, separator: string, limit: number): string[] => {
  if (limit === 0) return []
  const parts = separator === "" ? [...text] : text.split(separator)
  if (limit < 0 || parts.length <= limit) return parts
  return [...parts.slice(0, limit - 1), parts.slice(limit - 1).join(separator)]
}

/** Replaces the first `limit` occurrences; a negative limit is none. */
export const replace = (text: string, part: string, by: string, limit: number): string => {
  if (limit < 0) return text.replaceAll(part, () => by)
  const parts = part === "" ? ["", ...text, ""] : text.split(part)
  const head = parts.slice(0, limit + 1).join(by)
  const tail = parts.slice(limit + 1)
  return tail.length === 0 ? head : `${head}${part}${tail.join(part)}`
}

export const charAt = (text: string, index: bigint): string => {
  const points = [...text]
  if (index < 0n || index > BigInt(points.length)) throw outOfBounds(Number(index), points.length)
  return points[Number(index)] ?? ""
}
