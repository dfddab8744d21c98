// Codec of columns in both stores: JSON as text, outputs as inline JSON or as the key of an object, paths of instances.
//
// The column `limits` of a task row holds the ids of its limits, NULL without any (core/routing/limit-keys.ts explains their keys): JSON
// text in SQLite (connection/limit-column.ts), `bigint[]` in Postgres. A statement of Postgres about one row takes a list of numbers; one
// about many rows takes a text for each row (`arrayParam`) and casts it, because an array of arrays would have to be rectangular.

import { PARKED_BY_GROUP } from "../../core/rules/claims/admit.ts"
import type { Output } from "../../core/model/change.ts"
import type { Json } from "../../core/values/json.ts"
import type { TaskRow } from "../contract/store.ts"

export const toJson = (value: Json): string | null => (value === null ? null : JSON.stringify(value))
export const fromJson = (text: string | null): Json => (text === null ? null : (JSON.parse(text) as Json))

/** Columns `output`, `output_key` and `output_bytes`. The output null is the text `null`; no output is NULL. */
export type OutputColumns = [inline: string | null, key: string | null, bytes: number | null]

const NO_OUTPUT: OutputColumns = [null, null, null]

export const outputColumns = (output: Output | null | undefined): OutputColumns => {
  if (output === null || output === undefined) return NO_OUTPUT
  return "inline" in output ? [JSON.stringify(output.inline), null, null] : [null, output.key, output.bytes]
}

export const outputOf = (inline: string | null, key: string | null, bytes: number | null): Output | null => {
  if (inline !== null) return { inline: JSON.parse(inline) as Json }
  return key === null ? null : { key, bytes: bytes ?? 0 }
}

/** Decodes the column `parked`, with key, cap and used slots of the limit. */
export const parkedOf = (
  parked: number | null,
  limit: string | null,
  cap: number | null,
  used: number | null,
): TaskRow["parked"] => {
  if (parked === null) return null
  if (limit === null) return parked === PARKED_BY_GROUP ? "group" : "paused"
  return { limit, cap: cap!, used: used! }
}

/** Groups rows by a column, which the grouped rows no longer have. */
export const groupByColumn = <Column extends string, Row extends { [column in Column]: number }>(
  rows: readonly Row[],
  column: Column,
): Map<number, Omit<Row, Column>[]> => {
  const groups = new Map<number, Omit<Row, Column>[]>()
  for (const { [column]: key, ...row } of rows) {
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [row])
    else group.push(row)
  }
  return groups
}

/** Returns the path of instance `index` of a container. */
export const instancePath = (containerPath: string, index: number): string =>
  containerPath === "" ? `${index}` : `${containerPath}.${index}`
