// Records of steps: their keys, what they say about a wait, and what they say against the code that runs now.

import { isObject, type Json } from "../../core/values/json.ts"
import type { Step, StepKind } from "../../store/contract/functions.ts"
import { NonDeterminismError } from "../errors.ts"

export const keyOf = ({ name, occurrence }: Pick<Step, "name" | "occurrence">): string => `${occurrence}/${name}`

/** Returns the instant at which a waiting step goes on by itself; null: never. */
export const untilOf = (details: Json): number | null =>
  isObject(details) && typeof details["until"] === "number" ? details["until"] : null

/** Returns the id of the signal that a step has received; null: none. */
export const signalOf = (details: Json): number | null =>
  isObject(details) && typeof details["signal"] === "number" ? details["signal"] : null

const KIND_TEXT = {
  run: "step.run",
  sleep: "step.sleep",
  wait: "step.waitFor",
  call: "step.call",
  tx: "step.tx",
  approval: "step.approval",
  value: "step.now or step.random",
  patch: "step.patch",
} as const satisfies Record<StepKind, string>

export const nonDeterminism = ({ name, occurrence, kind, startedAt }: Step, wanted: StepKind): NonDeterminismError => {
  const what = occurrence === 0 ? `"${name}"` : `"${name}" (number ${occurrence + 1})`
  return new NonDeterminismError(
    `the step ${what} is ${KIND_TEXT[wanted]} in this code, but was recorded as ${KIND_TEXT[kind]} at ${startedAt}: ` +
      "give the changed step another name, or choose the old or new code with step.patch",
  )
}
