// Options whose value is one of a few words, or an instant.

import { InputError } from "./errors.ts"
import { isDateText } from "../../core/time/cron.ts"
import { nearest } from "../../core/model/nearest.ts"

/** `flag` is `--status`; its word stands in the message. */
export const oneOf = <Word extends string>(flag: string, text: string, known: readonly Word[]): Word => {
  const found = known.find((word) => word === text)
  if (found !== undefined) return found
  const near = nearest(text, known)
  const hint = near === undefined ? `there are ${known.join(", ")}` : `did you mean ${near}?`
  throw new InputError(`${flag}: there is no ${flag.replace(/^-+/, "")} "${text}"; ${hint}`)
}

/** A day or an instant, as the API and the stores take it. */
export const instantOf = (flag: string, text: string): string => {
  if (isDateText(text)) return new Date(text).toISOString()
  throw new InputError(`${flag}: "${text}" is not a day (2026-01-31) or an instant (2026-01-31T10:00:00Z)`)
}
