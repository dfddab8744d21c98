// Checks an object by the types of the official client: fields that its type does not have, and values of another kind.

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

export const typeProblems = (value: unknown, type: string, path: string): string[] => {
  const list = /^Array<(.+)>$/.exec(type)?.[1]
  if (list !== undefined) {
    if (!Array.isArray(value)) return [`${path} is no list`]
    return value.flatMap((item, i) => typeProblems(item, list, `${path}[${i}]`))
  }
  const map = /^\{ \[key: string\]: (.+); \}$/.exec(type)?.[1]
  if (map !== undefined) {
    if (!isMap(value)) return [`${path} is no map`]
    return Object.entries(value).flatMap(([key, item]) => typeProblems(item, map, `${path}.${key}`))
  }
  if (type === "any" || type === "IntOrString") return []
  const known = typeNamed(type)
  if (known === null) return typeof value === type ? [] : [`${path} is no ${type}`]
  if (!isMap(value)) return [`${path} is no map`]
  const attributes = new Map(known.getAttributeTypeMap().map((one) => [one.baseName, one]))
  return Object.entries(value).flatMap(([key, item]) => {
    const attribute = attributes.get(key)
    return attribute === undefined
      ? [`${path}.${key} is no field of ${type}`]
      : typeProblems(item, attribute.type, `${path}.${key}`)
  })
}

const isMap = (value: unknown): value is { [key: string]: unknown } =>
  typeof value === "object" && value !== null && !Array.isArray(value)
