import type { Path } from "../../model/problems.ts"
import { DURATION_HINT, parseDuration } from "../../values/quantities.ts"
import type { CompileContext } from "./context.ts"

/** Returns a duration in milliseconds, at least `min`. Without a value, or with a bad one, which is a problem, returns undefined. */
export const compileDuration = (context: CompileContext, value: unknown, path: Path, min = 1): number | undefined => {
  if (value === undefined) return undefined
  const ms = parseDuration(value)
  if (ms !== null && ms >= min) return ms
  context.problems.add(path, `must be a duration${min > 0 ? " of more than 0" : ""}: ${DURATION_HINT}`)
  return undefined
}
