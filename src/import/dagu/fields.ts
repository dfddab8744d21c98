// Fields of a Dagu file: reads them with their lines, and their values as texts, numbers and lists.

import { isScalar, type LineCounter, type YAMLMap } from "yaml"
import type { Json, JsonObject } from "../../core/values/json.ts"

/** A field of a Dagu file: its value, and its line for problems. */
export interface Field {
  value: Json
  line: number
}

export type Fields = Map<string, Field>

/** Reads fields of the YAML of a file. */
export class FieldReader {
  readonly #lines: LineCounter

  constructor(lines: LineCounter) {
    this.#lines = lines
  }

  lineOf(node: unknown): number {
    const range = (node as { range?: [number, number, number] | null } | null)?.range
    return range === undefined || range === null ? 1 : this.#lines.linePos(range[0]).line
  }

  /** Returns the fields of a map, with names in camelCase. */
  fieldsOf(map: YAMLMap): Fields {
    const fields: Fields = new Map()
    for (const { key, value } of map.items) {
      const name = camelCase(String(isScalar(key) ? key.value : key))
      fields.set(name, { value: (value as { toJSON?: () => Json } | null)?.toJSON?.() ?? null, line: this.lineOf(key) })
    }
    return fields
  }
}

/** Returns a function that removes and returns a field: what is left has no counterpart. */
export const fieldTaker =
  (fields: Fields) =>
  (name: string): Field | undefined => {
    const field = fields.get(name)
    fields.delete(name)
    return field
  }

export const camelCase = (name: string): string => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const plain = (node: unknown): Json => (node as { toJSON?: () => Json } | null)?.toJSON?.() ?? (node as Json)

export const toText = (value: Json): string => (typeof value === "string" ? value : JSON.stringify(value))

export const textOf = (field: Field | undefined): string | undefined =>
  field === undefined || field.value === null || typeof field.value === "object" ? undefined : String(field.value)

export const secondsOf = (field: Field | undefined): number | undefined =>
  typeof field?.value === "number" && field.value > 0 ? field.value : undefined

export const listOf = (field: Field | undefined): string[] | undefined => {
  if (field === undefined || field.value === null) return undefined
  if (Array.isArray(field.value)) return field.value.map((each) => toText(each))
  return typeof field.value === "string" ? field.value.split(/[,\s]+/).filter((each) => each !== "") : undefined
}

export const optional = <K extends string, V>(name: K, value: V | undefined): { [key in K]?: V } =>
  value === undefined ? {} : ({ [name]: value } as { [key in K]?: V })
