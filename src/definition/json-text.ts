// Checks of valid JSON text that JSON.parse does not make: depth, duplicate keys (JSON.parse keeps the last one), and `__proto__`.

import type { Path } from "../core/model/problems.ts"
import { MAX_DEPTH, TOO_DEEP } from "./text-limits.ts"

export interface JsonTextProblem {
  path: Path
  message: string
  offset: number
  /** For a duplicate key: the offset of the first one. */
  first?: number
}

interface Level {
  /** Keys so far with their offsets; null in a list. */
  keys: Map<string, number> | null
  step: string | number
}

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]/g

export const DUPLICATE_KEY = "is defined twice"
export const FORBIDDEN_KEY = '"__proto__" is not allowed as a name'

/** Returns the problems of a JSON text; stops where it is nested too deeply. */
export const jsonTextProblems = (text: string): JsonTextProblem[] => {
  const problems: JsonTextProblem[] = []
  const levels: Level[] = []
  let expectsKey = false
  for (const { 0: token, index: offset } of text.matchAll(TOKEN)) {
    const level = levels.at(-1)
    switch (token) {
      case "{":
      case "[":
        if (levels.length >= MAX_DEPTH) return [...problems, { path: [], message: TOO_DEEP, offset }]
        levels.push(token === "{" ? { keys: new Map(), step: "" } : { keys: null, step: 0 })
        expectsKey = token === "{"
        break
      case "}":
      case "]":
        levels.pop()
        expectsKey = false
        break
      case ",":
        if (level?.keys === null) level.step = Number(level.step) + 1
        expectsKey = level?.keys != null
        break
      case ":":
        expectsKey = false
        break
      default: {
        if (!expectsKey || level?.keys == null) break
        const key = JSON.parse(token) as string
        level.step = key
        const path = levels.map(({ step }) => step)
        const first = level.keys.get(key)
        if (first === undefined) level.keys.set(key, offset)
        else problems.push({ path, message: DUPLICATE_KEY, offset, first })
        if (key === "__proto__") problems.push({ path, message: FORBIDDEN_KEY, offset })
      }
    }
  }
  return problems
}
