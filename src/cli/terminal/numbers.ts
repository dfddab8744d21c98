// Whole numbers of the command line.

import { InputError } from "./errors.ts"

/** undefined stays undefined. */
export const wholeNumber = (
  flag: string,
  text: string | undefined,
  min: number,
  max = Number.MAX_SAFE_INTEGER,
): number | undefined => {
  if (text === undefined) return undefined
  const number = Number(text)
  if (/^\d+$/.test(text) && number >= min && number <= max) return number
  const range = max === Number.MAX_SAFE_INTEGER ? `from ${min} up` : `from ${min} to ${max}`
  throw new InputError(`${flag}: "${text}" is not a whole number ${range}`)
}

const DEFAULT_LIMIT = 20
const MAX_LIMIT = 1000

/** `--limit N` of every list. */
export const parseLimit = (text: string | undefined): number => wholeNumber("--limit", text, 1, MAX_LIMIT) ?? DEFAULT_LIMIT
