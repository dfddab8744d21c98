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

/** A step below a value: a field, an index, or steps below each item of a list. */
export type Step = string | number | { each: readonly Step[] }

/** Where the value of a reference comes from. `Owner` identifies a task of a graph. */
export type Origin<Owner> =
  | { kind: "params" | "run"; steps: readonly Step[] }
  | { kind: "output"; task: Owner; steps: readonly Step[] }
  | { kind: "status"; task: Owner }
  | { kind: "item"; task: Owner; steps: readonly Step[] }
  | { kind: "index"; task: Owner }
  /** An expression, and a text: parts of it and what is inserted between them. */
  | { kind: "cel" | "text"; parts: readonly (string | Origin<Owner>)[] }

export const isReference = (value: unknown): value is RefOf<unknown> =>
  typeof value === "object" && value !== null && REFERENCE in value

/** Returns the origin of a reference; null for other values. */
export const originOf = <Owner>(value: unknown): Origin<Owner> | null =>
  isReference(value) ? (value[REFERENCE] as Origin<Owner>) : null

/** Returns a reference. */
export const reference = <T, Owner>(origin: Origin<Owner>): Ref<T> =>
  new Proxy(Object.freeze({}), {
    has: (_, key) => key === REFERENCE,
    get: (_, key): unknown => {
      if (key === REFERENCE) return origin
      if (key === Symbol.toPrimitive || key === "toString" || key === "toJSON") return rejectUse
      if (typeof key === "symbol" || !("steps" in origin)) return undefined
      return reference({ ...origin, steps: [...origin.steps, stepOf(key)] })
    },
  }) as Ref<T>

const rejectUse = (): never => {
  throw new TypeError("a reference has no value before the graph runs: write g.text`…` or g.cel`…` in place of a text with it")
}

const stepOf = (key: string): Step => (/^(?:0|[1-9]\d{0,14})$/.test(key) ? Number(key) : key)

/** Words that CEL does not read as a field after a dot. */
const NOT_A_FIELD = new Set(["true", "false", "null", "in"])

/** Returns the steps as they follow an expression: `.files[0]["a-b"]`. */
export const stepsText = (steps: readonly Step[]): string =>
  steps
    .map((step) => {
      if (typeof step === "number") return `[${step}]`
      if (typeof step === "object") return `.map(i, i${stepsText(step.each)})`
      return /^[A-Za-z_][A-Za-z0-9_]*$/.test(step) && !NOT_A_FIELD.has(step) ? `.${step}` : `[${JSON.stringify(step)}]`
    })
    .join("")

/** Follows steps through a value; null where one is missing. */
export const follow = (value: Json, steps: readonly Step[]): Json => {
  let found = value
  for (const step of steps) {
    if (typeof step === "object") found = Array.isArray(found) ? found.map((item) => follow(item, step.each)) : null
    else if (typeof step === "number") found = (Array.isArray(found) ? found[step] : undefined) ?? null
    else found = (isObject(found) && Object.hasOwn(found, step) ? found[step] : undefined) ?? null
  }
  return found
}
