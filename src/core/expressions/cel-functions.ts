// Functions that replace those of the CEL library where it differs from the CEL specification, or where its cost has no bound.
// testing/conformance.ts runs the specification's tests. Texts are sequences of code points, as in `size`.

import type { CelFunc, CelList } from "@bufbuild/cel"
import { charAt, pointsAt, replace, split, substring, unitsAt } from "./characters.ts"
import { compilePattern } from "../values/regex.ts"

type Library = typeof import("@bufbuild/cel")

export const replacedFunctions = (library: Library): CelFunc[] => [
  concatLists(library),
  ...matches(library),
  ...conversions(library),
  ...texts(library),
]

/**
 * Replaces `list + list`, which `map` and `filter` are made of. The library's version nests one list in another at each step: reading
 * the result takes quadratic time, and overflows the stack beyond some 3,000 items. Here a list consists of a few flat parts, each
 * larger than the sum of the parts after it, so that appending takes logarithmic time and nothing is nested.
 */
const concatLists = (library: Library): CelFunc => {
  const list = library.listType(library.CelScalar.DYN)
  const partsOf = new WeakMap<CelList, CelList[]>()
  return library.celFunc("_+_", [list, list], list, (a, b) => {
    if (b.size === 0) return a
    if (a.size === 0) return b
    const parts = [...(partsOf.get(a) ?? [a]), b]
    while (parts.length > 1 && parts.at(-1)!.size >= parts.at(-2)!.size) {
      const [before, last] = parts.splice(-2)
      parts.push(library.celList([...before!, ...last!]))
    }
    if (parts.length === 1) return parts[0]!
    const joined = library.celListConcat(...parts)
    partsOf.set(joined, parts)
    return joined
  })
}

/** Replaces `matches`: the library passes patterns to JavaScript. */
const matches = ({ celFunc, celMethod, CelScalar: { BOOL, STRING } }: Library): CelFunc[] => [
  celFunc("matches", [STRING, STRING], BOOL, (text, pattern) => compilePattern(pattern).test(text)),
  celMethod("matches", STRING, [STRING], BOOL, function (pattern) {
    return compilePattern(pattern).test(String(this))
  }),
]

const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/
const SPECIAL = /^([+-]?)(inf|infinity|nan)$/i
const RFC_3339 = /^(\d{4}-\d{2}-\d{2})T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/

/** Returns true for a time of RFC 3339 on a day that the calendar has. */
const isTime = (text: string): boolean => {
  const day = RFC_3339.exec(text)?.[1]
  if (day === undefined) return false
  const midnight = new Date(`${day}T00:00:00Z`)
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day)
}

const parseDouble = (text: string): number => {
  if (DECIMAL.test(text)) return Number(text)
  const special = SPECIAL.exec(text)
  if (special === null) throw new Error(`${JSON.stringify(text)} is not a number`)
  if (special[2]!.toLowerCase() === "nan") return Number.NaN
  return special[1] === "-" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
}

/**
 * Replaces the conversions: the library accepts empty texts, hexadecimal numbers and days that the calendar does not have, and takes an
 * int as milliseconds.
 */
const conversions = (library: Library): CelFunc[] => {
  const { celFunc, CelScalar } = library
  const { DOUBLE, INT, STRING, UINT } = CelScalar
  const plain = library.celEnv({})
  const libraryFunction = (call: string) => {
    const program = library.plan(plain, library.parse(call))
    return (x: string | bigint): never => program({ x }) as never
  }
  const [toInt, toUint, toTimestamp] = ["int(x)", "uint(x)", "timestamp(x)"].map(libraryFunction) as [
    (x: string) => never,
    (x: string) => never,
    (x: string | bigint) => never,
  ]
  const checked =
    (pattern: RegExp, convert: (text: string) => never) =>
    (text: string): never => {
      if (!pattern.test(text)) throw new Error(`${JSON.stringify(text)} is not a whole number`)
      return convert(text)
    }
  const timestampType = library.celType(toTimestamp(0n)) as never
  return [
    celFunc("int", [STRING], INT, checked(/^-?\d+$/, toInt)),
    celFunc("uint", [STRING], UINT, checked(/^\d+$/, toUint)),
    celFunc("double", [STRING], DOUBLE, parseDouble),
    celFunc("timestamp", [STRING], timestampType, (text: string): never => {
      if (!isTime(text)) throw new Error(`${JSON.stringify(text)} is not a time such as 2026-01-31T10:00:00Z`)
      return toTimestamp(text)
    }),
    celFunc("timestamp", [INT], timestampType, (seconds: bigint): never => toTimestamp(seconds * 1000n)),
  ]
}

/**
 * Replaces functions of texts: the library counts UTF-16 units, cuts off what follows the last part of a limited `split`, and ignores a
 * negative limit.
 */
const texts = ({ celMethod, celList, listType, CelScalar: { INT, STRING, DYN } }: Library): CelFunc[] => {
  const list = listType(DYN)
  return [
    celMethod("charAt", STRING, [INT], STRING, function (index) {
      return charAt(String(this), index)
    }),
    celMethod("indexOf", STRING, [STRING], INT, function (part) {
      const text = String(this)
      return pointsAt(text, text.indexOf(part))
    }),
    celMethod("indexOf", STRING, [STRING, INT], INT, function (part, from) {
      const text = String(this)
      return pointsAt(text, text.indexOf(part, unitsAt(text, Number(from))))
    }),
    celMethod("lastIndexOf", STRING, [STRING], INT, function (part) {
      const text = String(this)
      return pointsAt(text, text.lastIndexOf(part))
    }),
    celMethod("lastIndexOf", STRING, [STRING, INT], INT, function (part, from) {
      const text = String(this)
      return pointsAt(text, text.lastIndexOf(part, unitsAt(text, Number(from))))
    }),
    celMethod("substring", STRING, [INT], STRING, function (start) {
      return substring(String(this), Number(start))
    }),
    celMethod("substring", STRING, [INT, INT], STRING, function (start, end) {
      return substring(String(this), Number(start), Number(end))
    }),
    celMethod("split", STRING, [STRING], list, function (separator) {
      return celList(split(String(this), separator, -1))
    }),
    celMethod("split", STRING, [STRING, INT], list, function (separator, limit) {
      return celList(split(String(this), separator, Number(limit)))
    }),
    celMethod("replace", STRING, [STRING, STRING], STRING, function (part, by) {
      return replace(String(this), part, by, -1)
    }),
    celMethod("replace", STRING, [STRING, STRING, INT], STRING, function (part, by, limit) {
      return replace(String(this), part, by, Number(limit))
    }),
  ]
}

/** Corrects maps, in which the library takes null for a missing value: `has({"a": null}.a)` and `"a" in {"a": null}` are true. */
export const correctMaps = ({ celMap }: Library): void => {
  const prototype = Object.getPrototypeOf(celMap(new Map())) as Map<unknown, unknown>
  prototype.has = function (key) {
    return this.get(key) !== undefined
  }
}
