// Adapter to the CEL library, for expressions.ts: converts values in both directions and collects what an expression refers to. The
// library is loaded on first use, because loading takes 60 to 120 ms. Only cel-functions.ts imports it too.

import { createRequire } from "node:module"
import type { CelInput, CelResult, parse as parseType } from "@bufbuild/cel"
import { correctMaps, replacedFunctions } from "./cel-functions.ts"
import type { Reference } from "./expression-path.ts"
import { isObject, type Json } from "../values/json.ts"
import { nearest } from "../values/nearest.ts"

type Library = typeof import("@bufbuild/cel")
type Expr = ReturnType<typeof parseType>["expr"]
export type Program = (variables: Record<string, CelInput>) => CelResult

const require = createRequire(import.meta.url)
let loaded: { library: Library; env: ReturnType<Library["celEnv"]> } | undefined

const load = (): NonNullable<typeof loaded> => {
  if (loaded === undefined) {
    const library = require("@bufbuild/cel") as Library
    const { strings } = require("@bufbuild/cel/ext") as typeof import("@bufbuild/cel/ext")
    correctMaps(library)
    loaded = { library, env: library.celEnv({ funcs: [...strings, ...replacedFunctions(library)] }) }
  }
  return loaded
}

/** Loads the library ahead of its first use. */
export const warmUp = (): void => void load()

/** Functions whose cost is not proportional to their input: regular expressions, and functions that multiply text. */
const UNBOUNDED_CALLS = new Set(["matches", "replace", "format"])

export interface CelExpression {
  refs: Reference[]
  bounded: boolean
  program(): Program
}

/** Parses an expression. Throws with the library's message when the text is not CEL. */
export const parseCel = (source: string): CelExpression => {
  const { library, env } = load()
  const parsed = library.parse(source)
  let program: Program | undefined
  return {
    ...collectReferences(parsed.expr),
    program: () => (program ??= library.plan(env, parsed) as Program),
  }
}

/** Throws when an expression calls a function that does not exist. Operators have names such as `_+_`. */
const checkFunction = (name: string): void => {
  const { funcs } = load().env
  if (!/^[A-Za-z]/.test(name) || funcs.find(name) !== undefined) return
  const names = [...new Set([...funcs].map((each) => each.name))].filter((each) => /^[A-Za-z]/.test(each))
  const near = nearest(name, [...names, ...MACROS])
  throw new Error(`there is no function ${name}${near === undefined ? "" : `; did you mean ${near}?`}`)
}

/** True for a function whose name contains dots, such as `strings.quote`: what looks like its target is not a variable. */
const isQualified = (target: Expr | undefined, name: string): boolean => {
  const reference = target === undefined ? null : toReference(target)
  return reference !== null && load().env.funcs.find([reference.root, ...reference.path, name].join(".")) !== undefined
}

const MACROS = ["has", "all", "exists", "exists_one", "map", "filter"]

// -- references ------------------------------------------------------------------------------------------------------------------

const collectReferences = (expr: Expr): { refs: Reference[]; bounded: boolean } => {
  const refs: Reference[] = []
  let bounded = true

  const visit = (node: Expr | undefined, locals: ReadonlySet<string>): void => {
    if (node === undefined) return
    const path = toReference(node)
    if (path !== null) {
      if (!locals.has(path.root)) refs.push(path)
      return
    }
    const kind = node.exprKind
    switch (kind.case) {
      case "selectExpr":
        return visit(kind.value.operand, locals)
      case "callExpr":
        if (UNBOUNDED_CALLS.has(kind.value.function)) bounded = false
        if (!isQualified(kind.value.target, kind.value.function)) {
          checkFunction(kind.value.function)
          visit(kind.value.target, locals)
        }
        return kind.value.args.forEach((arg) => visit(arg, locals))
      case "listExpr":
        return kind.value.elements.forEach((element) => visit(element, locals))
      case "structExpr":
        for (const entry of kind.value.entries) {
          if (entry.keyKind.case === "mapKey") visit(entry.keyKind.value, locals)
          visit(entry.value, locals)
        }
        return
      case "comprehensionExpr": {
        bounded = false
        const { iterRange, accuInit, iterVar, iterVar2, accuVar, loopCondition, loopStep, result } = kind.value
        visit(iterRange, locals)
        visit(accuInit, locals)
        const inner = new Set([...locals, iterVar, iterVar2, accuVar])
        for (const part of [loopCondition, loopStep, result]) visit(part, inner)
        return
      }
      default:
        return
    }
  }

  visit(expr, new Set())
  return { refs, bounded }
}

/** Returns `a.b["c"][0]` as one reference; null for anything but a path of literals from a variable. */
const toReference = (node: Expr): Reference | null => {
  const kind = node.exprKind
  if (kind.case === "identExpr") return { root: kind.value.name, path: [] }
  if (kind.case === "selectExpr") {
    const parent = kind.value.operand === undefined ? null : toReference(kind.value.operand)
    return parent === null ? null : { root: parent.root, path: [...parent.path, kind.value.field] }
  }
  if (kind.case !== "callExpr" || kind.value.function !== "_[_]") return null
  const [operand, index] = kind.value.args
  const parent = operand === undefined ? null : toReference(operand)
  const step = index?.exprKind.case === "constExpr" ? index.exprKind.value.constantKind : undefined
  if (parent === null || step === undefined) return null
  if (step.case === "stringValue") return { root: parent.root, path: [...parent.path, step.value] }
  if (step.case === "int64Value") return { root: parent.root, path: [...parent.path, Number(step.value)] }
  return null
}

// -- values ----------------------------------------------------------------------------------------------------------------------

/** Converts JSON to CEL. Whole numbers become ints, so that `tasks.a.output.count + 1` is arithmetic on ints. */
export const toCel = (value: Json): CelInput => {
  if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : value
  if (Array.isArray(value)) return value.map(toCel)
  if (isObject(value)) return new Map(Object.entries(value).map(([key, item]) => [key, toCel(item)]))
  return value
}

/** Converts a CEL result to JSON. Throws when JSON has no such value. */
export const fromCel = (value: CelResult): Json => {
  const { library } = load()
  if (library.isCelError(value)) throw value
  switch (typeof value) {
    case "boolean":
    case "string":
      return value
    case "bigint":
      return safeInteger(value)
    case "number":
      if (!Number.isFinite(value)) throw new Error(`its result is ${value}, which is not a JSON number`)
      return value
    default:
      break
  }
  if (value === null) return null
  if (library.isCelUint(value)) return safeInteger(value.value)
  if (library.isCelList(value)) return [...value].map((item) => fromCel(item))
  if (library.isCelMap(value)) {
    return Object.fromEntries([...value.entries()].map(([key, item]) => [String(mapKey(key)), fromCel(item)]))
  }
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64")
  if (library.isCelType(value)) throw new Error(`its result is the type ${value.name}; it must be a value`)
  return messageText(value.message)
}

const mapKey = (key: unknown): unknown => (isObject(key) && "value" in key ? key["value"] : key)

const safeInteger = (value: bigint): number => {
  const number = Number(value)
  if (!Number.isSafeInteger(number))
    throw new Error(`its result ${value} exceeds the integers that JSON represents exactly (2^53)`)
  return number
}

const messageText = ({
  $typeName,
  seconds = 0n,
  nanos = 0,
}: {
  $typeName: string
  seconds?: bigint
  nanos?: number
}): string => {
  switch ($typeName) {
    case "google.protobuf.Timestamp":
      return new Date(Number(seconds) * 1000 + nanos / 1e6).toISOString()
    case "google.protobuf.Duration":
      return `${Number(seconds) + nanos / 1e9}s`
    default:
      throw new Error(`its result is a ${$typeName}, which cannot be converted to JSON`)
  }
}
