// How values lie in columns, alike on both backends: outputs as inline JSON text or an object's key, JSON as text, and the
// places of rows in a fan-out.

import type { Output } from "../../core/model/change.ts"
import type { Json } from "../../core/model/json.ts"
import { HELD_BACK } from "./bounds.ts"
import type { TaskRow } from "../contract/store.ts"

export const toJson = (value: Json): string | null => (value === null ? null : JSON.stringify(value))
export const fromJson = (text: string | null): Json => (text === null ? null : (JSON.parse(text) as Json))

/** `output`, `output_key` and `output_bytes`. An output that is null is the text `null`; no output is NULL. */
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

/** `parked`, and the limit's key, cap and used slots. */
export const parkedOf = (
  parked: number | null,
  limit: string | null,
  cap: number | null,
  used: number | null,
): TaskRow["parked"] => {
  if (parked === null) return null
  if (limit === null) return parked === HELD_BACK ? "group" : "paused"
  return { limit, cap: cap!, used: used! }
}

/** The path of instance `index` of a container. */
export const instancePath = (containerPath: string, index: number): string =>
  containerPath === "" ? `${index}` : `${containerPath}.${index}`

/** Key of a row in a map. */
export const placeOf = (runSeq: number, node: number, path: string): string => `${runSeq}/${node}/${path}`
