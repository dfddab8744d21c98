// Sequences of keys: which command is meant by what was pressed. Pure; use-shortcuts.ts feeds it.

/** Keys of one command in order: `["g", "w"]`, `["?"]`. */
export type Sequence = readonly string[]

/** A further key of a sequence has to come within this time. */
export const SEQUENCE_MS = 1200

export interface Pressed {
  keys: readonly string[]
  at: number
}

export const NOTHING: Pressed = { keys: [], at: 0 }

export type Step = { matched: number } | { pressed: Pressed }

/** What follows from one more key: the index of the sequence that is complete now, or what is pressed so far. */
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

/** The next place in a list of so many, from where one is (-1: nowhere); it stops at the ends. */
export const move = (length: number, from: number, by: 1 | -1): number => {
  if (length === 0) return -1
  if (from === -1) return by === 1 ? 0 : length - 1
  return Math.min(length - 1, Math.max(0, from + by))
}
