// Values as JSON carries them.

import { messageOf } from "../core/values/error-message.ts"
import { isObject, type Json, type JsonObject } from "../core/values/json.ts"
import { InvalidInputError, NotJsonError } from "./errors.ts"

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

/** Returns the params of a run. Throws an InvalidInputError for an input that is not an object. */
export const paramsOf = (input: unknown, name: string): JsonObject => {
  const what = `the input of ${name}`
  const params = toJson(input ?? {}, what)
  if (isObject(params)) return params
  throw new InvalidInputError(what, [{ path: "", message: "it must be an object, because its fields are the params of a run" }])
}
