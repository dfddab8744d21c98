// Checks of the values that programs give as options: those that types cannot rule out, and those that JavaScript passes on. Each throws a
// TypeError in which `what` names the option. The bounds are those of the API.

import { NAME } from "../core/model/names.ts"

export const MAX_LIMIT = 1_000_000
const MAX_TEXT = 255
const CONTROL = /[\u0000-\u001f\u007f]/
/** Databases and the API know the years with four digits. */
const YEARS = { first: 1970, last: 9999 }

export const checkCount = (value: number, what: string, max = MAX_LIMIT): number => {
  if (Number.isInteger(value) && value >= 1 && value <= max) return value
  throw new TypeError(`${what} is ${textOf(value)}, but must be a whole number from 1 to ${max}`)
}

export const checkPriority = (value: number, what: string): number => checkCount(value, what, 10)

/** Checks a key, a group or a name. */
export const checkText = (value: string, what: string, max = MAX_TEXT): string => {
  if (typeof value === "string" && value !== "" && !CONTROL.test(value) && value.isWellFormed() && [...value].length <= max)
    return value
  throw new TypeError(`${what} is ${textOf(value)}, but must be a text of 1 to ${max} characters without control characters`)
}

export const checkScheduleName = (name: string): void => {
  if (NAME.test(name)) return
  const hint = 'use a name of at most 128 letters, digits, "_", "." and "-", beginning with a letter or digit'
  throw new TypeError(`the schedule ${textOf(name)}: ${hint}`)
}

export const checkOneOf = <Value extends string>(value: Value, allowed: readonly Value[], what: string): Value => {
  if (allowed.includes(value)) return value
  throw new TypeError(`${what} is ${textOf(value)}, but must be one of ${allowed.join(", ")}`)
}

export const checkDate = (value: Date, what: string): Date => {
  const year = value instanceof Date ? value.getUTCFullYear() : Number.NaN
  if (year >= YEARS.first && year <= YEARS.last) return value
  throw new TypeError(`${what} is ${textOf(value)}, but must be a Date of the years ${YEARS.first} to ${YEARS.last}`)
}

/** Returns a value as a message shows it, shortened. */
const textOf = (value: unknown): string => {
  const text = typeof value === "string" ? JSON.stringify(value) : String(value)
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}
