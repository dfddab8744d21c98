// Details of a waiting step, as its record has them.

import { isObject, type Json } from "../../core/values/json.ts"

/** Returns the instant at which a waiting step goes on by itself; null: never. */
export const untilOf = (details: Json): number | null =>
  isObject(details) && typeof details["until"] === "number" ? details["until"] : null

/** Returns the id of the signal that a step has received; null: none. */
export const signalOf = (details: Json): number | null =>
  isObject(details) && typeof details["signal"] === "number" ? details["signal"] : null
