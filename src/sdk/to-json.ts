// Values as JSON carries them.

import { messageOf } from "../core/values/error-message.ts"
import type { Json } from "../core/values/json.ts"
import { NotJsonError } from "./errors.ts"

const ADVICE = "use texts, numbers, booleans, null, and lists and objects of them"

/** Returns a value as JSON carries it. Throws a NotJsonError, in which `what` names the value. */
export const toJson = (value: unknown, what: string): Json => {
  if (value === undefined) return null
  let text: string | undefined
  try {
    text = JSON.stringify(value) as string | undefined
  } catch (error) {
    throw new NotJsonError(`${what} is not JSON: ${messageOf(error)}; ${ADVICE}`, { cause: error })
  }
  if (text === undefined) throw new NotJsonError(`${what} is not JSON: it is a ${typeof value}; ${ADVICE}`)
  return JSON.parse(text) as Json
}
