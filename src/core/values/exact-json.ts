// Parses JSON without changing numbers silently: JavaScript's numbers are exact for integers up to 2^53 only.

import type { Json } from "./json.ts"

/** A number of a JSON text that would change on its way to other tasks. */
export class InexactNumber extends Error {
  constructor(literal: string) {
    super(inexactMessage(literal))
  }
}

const INEXACT = "the number "

const inexactMessage = (literal: string): string => {
  const shown = literal.length > 40 ? `${literal.slice(0, 40)}…` : literal
  return `${INEXACT}${shown}, which would change on its way to other tasks (integers are exact up to 2^53); write it as a text, in quotes`
}

export const isInexactMessage = (message: string): boolean => message.startsWith(INEXACT)

/** Returns why a number would change when it is read and written again, or null. Digits after the point are not compared. */
export const inexactNumber = (literal: string): string | null => {
  const value = Number(literal)
  const isChanged = !Number.isFinite(value) || (/^-?\d{16,}$/.test(literal) && String(value) !== literal)
  return isChanged ? inexactMessage(literal) : null
}

/** Only a text with such digits may contain a number that changes. */
const MAY_BE_INEXACT = /\d{16}|\d[eE]\+?\d{3}/

/** Throws a SyntaxError, or an InexactNumber. */
export const parseExactJson = (text: string): Json =>
  JSON.parse(text, MAY_BE_INEXACT.test(text) ? rejectInexact : undefined) as Json

/** Returns a text that is not JSON, or whose numbers would change, unparsed. */
export const jsonOrText = (text: string): Json => {
  try {
    return parseExactJson(text)
  } catch {
    return text
  }
}

/** Throws an InexactNumber if valid JSON contains one. */
export const checkExactJson = (text: string): void => {
  if (MAY_BE_INEXACT.test(text)) parseExactJson(text)
}

/** The third argument of a reviver, which the types of JSON.parse do not know yet. */
interface ReviverContext {
  source?: string
}

const rejectInexact = (_key: string, value: unknown, context?: ReviverContext): unknown => {
  const literal = typeof value === "number" ? context?.source : undefined
  if (literal !== undefined && inexactNumber(literal) !== null) throw new InexactNumber(literal)
  return value
}
