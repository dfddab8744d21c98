// Checks that a definition given as a value is plain JSON of bounded size and depth. Does not recurse.

import type { Path, Problem } from "../core/model/problems.ts"
import { pathText } from "../core/model/problems.ts"
import { FORBIDDEN_KEY } from "./json-text.ts"
import { MAX_BYTES, MAX_DEPTH, TOO_DEEP } from "./text-limits.ts"

/** Returns the first problem, or null. */
export const jsonValueProblem = (root: unknown): Problem | null => {
  const pending: { value: unknown; path: Path }[] = [{ value: root, path: [] }]
  let size = 0
  while (pending.length > 0) {
    const { value, path } = pending.pop()!
    const problem = (message: string): Problem => ({ path: pathText(path), message })
    if (path.length > MAX_DEPTH) return problem(TOO_DEEP)
    if (typeof value === "string") size += value.length
    if (++size > MAX_BYTES) return problem("the definition is larger than 1 MiB")
    if (value === null || typeof value === "string" || typeof value === "boolean") continue
    if (typeof value === "number" && Number.isFinite(value)) continue
    if (Array.isArray(value)) {
      for (const [i, item] of value.entries()) pending.push({ value: item, path: [...path, i] })
    } else if (typeof value === "object" && isPlainObject(value)) {
      for (const [key, item] of Object.entries(value)) {
        if (key === "__proto__") return { path: pathText([...path, key]), message: FORBIDDEN_KEY }
        if (item !== undefined) pending.push({ value: item, path: [...path, key] })
      }
    } else return problem(`${typeof value === "number" ? String(value) : `a ${typeof value}`} cannot be written as JSON`)
  }
  return null
}

const isPlainObject = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}
