// Suggestions for unknown names ("did you mean …"), by edit distance.

/** Counts insertions, deletions, substitutions and swaps of neighbours; stops above `limit`. */
const distance = (a: string, b: string, limit: number): number => {
  if (Math.abs(a.length - b.length) > limit) return limit + 1
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  let before = row
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    let best = i
    for (let j = 1; j <= b.length; j++) {
      let cost = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) cost = Math.min(cost, before[j - 2]! + 1)
      next.push(cost)
      best = Math.min(best, cost)
    }
    if (best > limit) return limit + 1
    before = row
    row = next
  }
  return row[b.length]!
}

/** Bounds on the work: longer names, and names beyond the first 2,000, are not compared. */
const MAX_LENGTH = 64
const MAX_KNOWN = 2000

/** Returns the known name that is close enough to be the one meant, or undefined. */
export const nearest = (name: string, known: Iterable<string>): string | undefined => {
  if (name.length === 0 || name.length > MAX_LENGTH) return undefined
  const wanted = name.toLowerCase()
  let limit = Math.min(3, Math.floor(name.length / 3))
  let best: string | undefined
  let seen = 0
  for (const candidate of known) {
    if (++seen > MAX_KNOWN) break
    if (candidate.length > MAX_LENGTH) continue
    const cost = distance(wanted, candidate.toLowerCase(), limit)
    if (cost > limit) continue
    best = candidate
    if (cost === 0) break
    limit = cost - 1
  }
  return best
}
