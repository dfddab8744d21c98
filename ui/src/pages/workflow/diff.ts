// A line diff of two texts by their longest common subsequence.

export type DiffLine = { kind: "same" | "added" | "removed"; text: string; left: number | null; right: number | null }

/** A folded block of unchanged lines. */
export interface Fold {
  kind: "fold"
  lines: DiffLine[]
}

/** Above this many pairs of lines the middle counts as replaced, because the table would not fit in memory. */
const MAX_CELLS = 4_000_000
const CONTEXT = 3

/** Formats a definition for reading: single-line JSON is indented. */
export const readable = (definition: string): string => {
  if (!definition.trimStart().startsWith("{") || definition.trim().includes("\n")) return definition
  try {
    return JSON.stringify(JSON.parse(definition), null, 2)
  } catch {
    return definition
  }
}

const linesOf = (text: string): string[] => (text === "" ? [] : text.replace(/\n$/, "").split("\n"))

export const diffLines = (before: string, after: string): DiffLine[] => {
  const left = linesOf(before)
  const right = linesOf(after)
  let head = 0
  while (head < left.length && head < right.length && left[head] === right[head]) head += 1
  let tail = 0
  while (tail < left.length - head && tail < right.length - head && left.at(-1 - tail) === right.at(-1 - tail)) tail += 1
  const same = (i: number, j: number): DiffLine => ({ kind: "same", text: left[i]!, left: i + 1, right: j + 1 })
  return [
    ...Array.from({ length: head }, (_, i) => same(i, i)),
    ...middle(left.slice(head, left.length - tail), right.slice(head, right.length - tail), head),
    ...Array.from({ length: tail }, (_, i) => same(left.length - tail + i, right.length - tail + i)),
  ]
}

const middle = (left: readonly string[], right: readonly string[], offset: number): DiffLine[] => {
  const removed = (i: number): DiffLine => ({ kind: "removed", text: left[i]!, left: offset + i + 1, right: null })
  const added = (j: number): DiffLine => ({ kind: "added", text: right[j]!, left: null, right: offset + j + 1 })
  if (left.length * right.length > MAX_CELLS) return [...left.map((_, i) => removed(i)), ...right.map((_, j) => added(j))]
  const common = commonLengths(left, right)
  const width = right.length + 1
  const lines: DiffLine[] = []
  let [i, j] = [0, 0]
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      lines.push({ kind: "same", text: left[i]!, left: offset + i + 1, right: offset + j + 1 })
      i += 1
      j += 1
    } else if (i < left.length && (j === right.length || common[(i + 1) * width + j]! >= common[i * width + j + 1]!)) {
      lines.push(removed(i))
      i += 1
    } else {
      lines.push(added(j))
      j += 1
    }
  }
  return lines
}

/** Computes, at `i * width + j`, the length of the longest common subsequence of the lines from i and from j on. */
const commonLengths = (left: readonly string[], right: readonly string[]): Uint32Array => {
  const width = right.length + 1
  const table = new Uint32Array((left.length + 1) * width)
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      const here = i * width + j
      table[here] = left[i] === right[j] ? table[here + width + 1]! + 1 : Math.max(table[here + width]!, table[here + 1]!)
    }
  }
  return table
}

/** Folds unchanged lines that are more than three lines from a change. */
export const folded = (lines: readonly DiffLine[]): (DiffLine | Fold)[] => {
  const near = new Set<number>()
  for (const [i, { kind }] of lines.entries()) {
    if (kind !== "same") for (let k = i - CONTEXT; k <= i + CONTEXT; k++) near.add(k)
  }
  const out: (DiffLine | Fold)[] = []
  for (const [i, line] of lines.entries()) {
    const last = out.at(-1)
    if (near.has(i)) out.push(line)
    else if (last?.kind === "fold") last.lines.push(line)
    else out.push({ kind: "fold", lines: [line] })
  }
  return out
}

export const countChanges = (lines: readonly DiffLine[]): { added: number; removed: number } => ({
  added: lines.filter((line) => line.kind === "added").length,
  removed: lines.filter((line) => line.kind === "removed").length,
})
