// Patterns of names, in which `*` stands for any text.

/** Returns true if a pattern matches and none that starts with `!` does. */
export const matches = (patterns: readonly string[], value: string): boolean =>
  patterns.some((pattern) => !pattern.startsWith("!") && fits(pattern, value)) &&
  !patterns.some((pattern) => pattern.startsWith("!") && fits(pattern.slice(1), value))

/** Returns whether a text fits a pattern. Compares without backtracking: each part between two stars is searched once. */
export const fits = (pattern: string, value: string): boolean => {
  const [first = "", ...rest] = pattern.split("*")
  if (rest.length === 0) return value === pattern
  const last = rest.pop()!
  if (value.length < first.length + last.length || !value.startsWith(first) || !value.endsWith(last)) return false
  let at = first.length
  for (const part of rest) {
    const found = value.indexOf(part, at)
    if (found === -1 || found + part.length > value.length - last.length) return false
    at = found + part.length
  }
  return at <= value.length - last.length
}
