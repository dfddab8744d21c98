// Matches key sequences to commands. Pure; used by use-shortcuts.ts.

/** Keys of one command in order: `["g", "w"]`, `["?"]`. */
export type Sequence = readonly string[]

/** Longest pause between the keys of a sequence, in milliseconds. */
export const SEQUENCE_MS = 1200

export interface Pressed {
  keys: readonly string[]
  at: number
}

export const NOTHING: Pressed = { keys: [], at: 0 }

export type Step = { matched: number } | { pressed: Pressed }

/** Processes one key: returns the index of the completed sequence or the keys pressed so far. */
export const press = (before: Pressed, key: string, at: number, sequences: readonly Sequence[]): Step => {
  const fresh = at - before.at <= SEQUENCE_MS ? before.keys : []
  for (const keys of [[...fresh, key], [key]]) {
    const matched = sequences.findIndex((each) => same(each, keys))
    if (matched !== -1) return { matched }
    if (sequences.some((each) => each.length > keys.length && same(each.slice(0, keys.length), keys))) {
      return { pressed: { keys, at } }
    }
  }
  return { pressed: NOTHING }
}

const same = (a: Sequence, b: Sequence): boolean => a.length === b.length && a.every((key, i) => key === b[i])

/** Returns the next index in a list (from -1 for none); stops at the ends. */
export const move = (length: number, from: number, by: 1 | -1): number => {
  if (length === 0) return -1
  if (from === -1) return by === 1 ? 0 : length - 1
  return Math.min(length - 1, Math.max(0, from + by))
}
