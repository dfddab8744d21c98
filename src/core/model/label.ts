// Labels, which name the instances of a fan-out for people.

import type { Json } from "../values/json.ts"

const MAX_LENGTH = 100
// Line breaks and other control characters would break tables and terminals.
const CONTROL = /[\u0000-\u001f\u007f]+/g

/** Returns the text as a label: one line of at most 100 characters, or null when nothing is left of it. */
export const labelOf = (text: string): string | null => {
  const line = text
    .slice(0, 2 * MAX_LENGTH)
    .toWellFormed()
    .replaceAll(CONTROL, " ")
    .trim()
  const characters = [...line]
  const label = characters.length > MAX_LENGTH ? `${characters.slice(0, MAX_LENGTH - 1).join("")}…` : line
  return label === "" ? null : label
}

/** Returns the label of an instance without `label`: the item if it is a scalar, or the item's `name` or `id`; null without either. */
export const defaultLabel = (item: Json): string | null => {
  if (item === null || Array.isArray(item)) return null
  if (typeof item !== "object") return labelOf(String(item))
  const name = [item["name"], item["id"]].find((value) => typeof value === "string" || typeof value === "number")
  return name === undefined ? null : labelOf(String(name))
}
