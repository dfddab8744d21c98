// Is a value plain JSON of bounded depth? For definitions that come as values; walks with a stack of its own.

import type { Path, Problem } from "../core/model/problems.ts"
import { pathText } from "../core/model/problems.ts"
import { MAX_BYTES, MAX_DEPTH } from "../protocol/wire/limits.ts"

/** The first thing that is not, or null. */
export const jsonValueProblem = (root: unknown): Problem | null => {
  const left: { value: unknown; path: Path }[] = [{ value: root, path: [] }]
  let size = 0
  while (left.length > 0) {
    const { value, path } = left.pop()!
    const fail = (message: string): Problem => ({ path: pathText(path), message })
    if (path.length > MAX_DEPTH) return fail(`nested more than ${MAX_DEPTH} levels deep`)
    if (typeof value === "string") size += value.length
    if (++size > MAX_BYTES) return fail("the definition is larger than 1 MiB")
    if (value === null || typeof value === "string" || typeof value === "boolean") continue
    if (typeof value === "number" && Number.isFinite(value)) continue
    if (Array.isArray(value)) {
      for (const [i, item] of value.entries()) left.push({ value: item, path: [...path, i] })
    } else if (typeof value === "object" && isPlain(value)) {
      for (const [key, item] of Object.entries(value)) {
        if (key === "__proto__") return { path: pathText([...path, key]), message: '"__proto__" is not allowed as a name' }
        if (item !== undefined) left.push({ value: item, path: [...path, key] })
      }
    } else return fail(`${typeof value === "number" ? String(value) : `a ${typeof value}`} has no JSON form`)
  }
  return null
}

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}
