// References to values that exist only while a graph runs: its params, outputs of its tasks and items of its fan-outs. A reference is a
// proxy whose fields are references, so that `found.files[0].path` stands for the expression of that path.

import type { Json } from "../../core/values/json.ts"
import { isObject } from "../../core/values/json.ts"

/** Key of the origin of a reference; its type is that of the value. */
export const REFERENCE: unique symbol = Symbol("ork.reference")

/** Anything that stands for a value of type T. */
export interface RefOf<T> {
  readonly [REFERENCE]: T
}

/** A reference to a value of type T. Its fields and items are references too. */
export type Ref<T> = RefOf<T> & RefFields<T>

type RefFields<T> = T extends readonly (infer Item)[]
  ? { readonly [index: number]: Ref<Item> }
  : T extends object
    ? { readonly [Key in keyof T]-?: Ref<Exclude<T[Key], undefined>> }
    : object

/** A value as a graph passes it on: the value itself, a reference to it, or an object or list with references in it. */
export type Value<T> =
  | T
  | RefOf<T>
  | (T extends readonly (infer Item)[]
      ? readonly Value<Item>[]
      : T extends object
        ? { readonly [Key in keyof T]: Value<T[Key]> }
        : never)

/** A segment of a path below a value: a field, an index, or the path below each item of a list. */
export type PathSegment = string | number | { each: readonly PathSegment[] }

/** Where the value of a reference comes from. `Owner` identifies a task of a graph. */
export type Origin<Owner> =
  | { kind: "params" | "run"; segments: readonly PathSegment[] }
  | { kind: "output"; task: Owner; segments: readonly PathSegment[] }
  | { kind: "status"; task: Owner }
  | { kind: "item"; task: Owner; segments: readonly PathSegment[] }
  | { kind: "index"; task: Owner }
  /** An expression, and a text: parts of it and what is inserted between them. */
  | { kind: "cel" | "text"; parts: readonly (string | Origin<Owner>)[] }

export const isReference = (value: unknown): value is RefOf<unknown> =>
  typeof value === "object" && value !== null && REFERENCE in value

/** Returns the origin of a reference; null for other values. */
export const originOf = <Owner>(value: unknown): Origin<Owner> | null =>
  isReference(value) ? (value[REFERENCE] as Origin<Owner>) : null

/** Returns a reference to the value at an origin. Its fields are created when they are read. */
export const reference = <T, Owner>(origin: Origin<Owner>): Ref<T> =>
  new Proxy(Object.freeze({}), {
    has: (_, key) => key === REFERENCE,
    get: (_, key): unknown => {
      if (key === REFERENCE) return origin
      if (key === Symbol.toPrimitive || key === "toString" || key === "toJSON") return rejectUse
      if (typeof key === "symbol" || !("segments" in origin)) return undefined
      return reference({ ...origin, segments: [...origin.segments, segmentOf(key)] })
    },
  }) as Ref<T>

const rejectUse = (): never => {
  throw new TypeError("a reference has no value before the graph runs: write g.text`…` or g.cel`…` in place of a text with it")
}

const segmentOf = (key: string): PathSegment => (/^(?:0|[1-9]\d{0,14})$/.test(key) ? Number(key) : key)

/** Words that CEL does not read as a field after a dot. */
const NOT_A_FIELD = new Set(["true", "false", "null", "in"])

/** Returns the segments as they follow an expression: `.files[0]["a-b"]`. */
export const pathText = (segments: readonly PathSegment[]): string =>
  segments
    .map((segment) => {
      if (typeof segment === "number") return `[${segment}]`
      if (typeof segment === "object") return `.map(i, i${pathText(segment.each)})`
      return /^[A-Za-z_][A-Za-z0-9_]*$/.test(segment) && !NOT_A_FIELD.has(segment)
        ? `.${segment}`
        : `[${JSON.stringify(segment)}]`
    })
    .join("")

/** Returns the value at a path in a value; null where the path does not exist. */
export const valueAt = (value: Json, segments: readonly PathSegment[]): Json => {
  let found = value
  for (const segment of segments) {
    if (typeof segment === "object") found = Array.isArray(found) ? found.map((item) => valueAt(item, segment.each)) : null
    else if (typeof segment === "number") found = (Array.isArray(found) ? found[segment] : undefined) ?? null
    else found = (isObject(found) && Object.hasOwn(found, segment) ? found[segment] : undefined) ?? null
  }
  return found
}
