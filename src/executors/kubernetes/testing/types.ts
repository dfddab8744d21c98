// Checks an object against the published types of Kubernetes, as the official client has them: unknown fields, missing required
// fields, and values of the wrong type.

import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as client from "@kubernetes/client-node"

interface Attribute {
  baseName: string
  type: string
  format: string
}

const typeNamed = (name: string): { getAttributeTypeMap(): Attribute[] } | null => {
  const found: unknown = Object.entries(client).find(([known]) => known === name)?.[1]
  return typeof found === "function" && "getAttributeTypeMap" in found
    ? (found as unknown as { getAttributeTypeMap(): Attribute[] })
    : null
}

const types = new Map<string, { attributes: Map<string, Attribute>; required: string[] } | null>()
const MODELS = fileURLToPath(new URL("gen/models/", import.meta.resolve("@kubernetes/client-node")))

const typeOf = (name: string) => {
  const cached = types.get(name)
  if (cached !== undefined) return cached
  const type = typeNamed(name)
  const found = type === null ? null : { attributes: attributesOf(type), required: requiredOf(name) }
  types.set(name, found)
  return found
}

const attributesOf = (type: { getAttributeTypeMap(): Attribute[] }): Map<string, Attribute> =>
  new Map(type.getAttributeTypeMap().map((one) => [one.baseName, one]))

/** Reads the required fields from the declarations: the attribute maps do not have them. */
const requiredOf = (name: string): string[] =>
  [...readFileSync(`${MODELS}${name}.d.ts`, "utf8").matchAll(/^ {4}'(\w+)': /gm)].map(([, field]) => field!)

export const typeProblems = (value: unknown, type: string, path: string): string[] => {
  const list = /^Array<(.+)>$/.exec(type)?.[1]
  if (list !== undefined) {
    if (!Array.isArray(value)) return [`${path} is not a list`]
    return value.flatMap((item, i) => typeProblems(item, list, `${path}[${i}]`))
  }
  const map = /^\{ \[key: string\]: (.+); \}$/.exec(type)?.[1]
  if (map !== undefined) {
    if (!isMap(value)) return [`${path} is not a map`]
    return Object.entries(value).flatMap(([key, item]) => typeProblems(item, map, `${path}.${key}`))
  }
  if (type === "any" || type === "IntOrString") return []
  const shape = typeOf(type)
  if (shape === null) return typeof value === type ? [] : [`${path} is not a ${type}`]
  if (!isMap(value)) return [`${path} is not a map`]
  const missing = shape.required.filter((field) => value[field] === undefined)
  return [
    ...missing.map((field) => `${path}.${field} is required`),
    ...Object.entries(value).flatMap(([key, item]) => {
      const attribute = shape.attributes.get(key)
      return attribute === undefined
        ? [`${path}.${key} is not a field of ${type}`]
        : typeProblems(item, attribute.type, `${path}.${key}`)
    }),
  ]
}

const isMap = (value: unknown): value is { [key: string]: unknown } =>
  typeof value === "object" && value !== null && !Array.isArray(value)
