// JSON text, checked beyond what JSON.parse does: depth, keys that stand twice (it would keep the last in silence), `__proto__`.
// One pass over the tokens of a text that is valid JSON already.

import type { Path } from "../../core/model/problems.ts"
import { MAX_DEPTH } from "./limits.ts"

export interface JsonFault {
  path: Path
  message: string
  offset: number
  /** Where the key stood first. */
  first?: number
}

interface Level {
  /** Keys so far with their places; null in a list. */
  keys: Map<string, number> | null
  step: string | number
}

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]/g

/** Stops at the first thing that is too deep. */
export const jsonFaults = (text: string): JsonFault[] => {
  const faults: JsonFault[] = []
  const levels: Level[] = []
  let wantsKey = false
  for (const match of text.matchAll(TOKEN)) {
    const token = match[0]
    const level = levels.at(-1)
    const path = (): Path => levels.map(({ step }) => step)
    switch (token) {
      case "{":
      case "[":
        if (levels.length >= MAX_DEPTH) {
          return [...faults, { path: [], message: `nested more than ${MAX_DEPTH} levels deep`, offset: match.index }]
        }
        levels.push(token === "{" ? { keys: new Map(), step: "" } : { keys: null, step: 0 })
        wantsKey = token === "{"
        break
      case "}":
      case "]":
        levels.pop()
        wantsKey = false
        break
      case ",":
        if (level?.keys === null) level.step = Number(level.step) + 1
        wantsKey = level?.keys != null
        break
      case ":":
        wantsKey = false
        break
      default: {
        if (!wantsKey || level?.keys == null) break
        const key = JSON.parse(token) as string
        level.step = key
        const first = level.keys.get(key)
        if (first !== undefined) faults.push({ path: path(), message: "stands here twice", offset: match.index, first })
        else level.keys.set(key, match.index)
        if (key === "__proto__")
          faults.push({ path: path(), message: '"__proto__" is not allowed as a name', offset: match.index })
      }
    }
  }
  return faults
}
