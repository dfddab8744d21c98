// Parsers for the values of options. Each throws an InputError that names the option; most return undefined for an absent option.

import { InputError } from "./errors.ts"
import { MAX_LABELS } from "../../core/routing/capabilities.ts"
import { isDateText } from "../../core/time/cron.ts"
import { nearest } from "../../core/values/nearest.ts"

/** Undefined if the option may be absent. */
type Absent<Text> = Extract<Text, undefined>

/** Parses one of a few words. `flag` is the option as typed, such as `--status`. */
export const parseChoice = <Word extends string, Text extends string | undefined>(
  flag: string,
  text: Text,
  choices: readonly Word[],
): Word | Absent<Text> => {
  if (text === undefined) return text as Absent<Text>
  const found = choices.find((word: string) => word === text)
  if (found !== undefined) return found
  const near = nearest(text, choices)
  const hint = near === undefined ? `use one of ${choices.join(", ")}` : `did you mean ${near}?`
  throw new InputError(`${flag}: there is no ${flag.replace(/^-+/, "")} "${text}"; ${hint}`)
}

/** Parses a day or an instant into an ISO instant. */
export const parseInstant = <Text extends string | undefined>(flag: string, text: Text): string | Absent<Text> => {
  if (text === undefined) return text as Absent<Text>
  if (isDateText(text)) return new Date(text).toISOString()
  throw new InputError(`${flag}: "${text}" is not a day (2026-01-31) or an instant (2026-01-31T10:00:00Z)`)
}

export const parseWholeNumber = <Text extends string | undefined>(
  flag: string,
  text: Text,
  min: number,
  max = Number.MAX_SAFE_INTEGER,
): number | Absent<Text> => {
  if (text === undefined) return text as Absent<Text>
  const number = Number(text)
  if (/^\d+$/.test(text) && number >= min && number <= max) return number
  const range = max === Number.MAX_SAFE_INTEGER ? `from ${min} up` : `from ${min} to ${max}`
  throw new InputError(`${flag}: "${text}" is not a whole number ${range}`)
}

const DEFAULT_LIMIT = 20
const MAX_LIMIT = 1000

export const parseLimit = (text: string | undefined): number => parseWholeNumber("--limit", text, 1, MAX_LIMIT) ?? DEFAULT_LIMIT

/** Parses `--index N` or `--path 1.2`; returns undefined if neither was given. */
export const parseInstancePath = (options: { index?: string; path?: string }): string | undefined => {
  if (options.path !== undefined) {
    if (!/^\d+(\.\d+)*$/.test(options.path)) throw new InputError(`--path: "${options.path}" is not a path such as 3 or 1.2`)
    return options.path
  }
  return parseWholeNumber("--index", options.index, 0)?.toString()
}

export interface TaskReference {
  task: string
  /** Path of an instance. A reference has a path or a label, not both. */
  path?: string
  /** Label of an instance. */
  label?: string
}

/** Parses a task such as `load`, or an instance of it: by options, or as `load[3]`, `load[1.2]` or `load[rome.csv]`. */
export const parseTask = (text: string, options: { index?: string; path?: string } = {}): TaskReference => {
  const path = parseInstancePath(options)
  const [, task, instance] = /^([^[]+)\[(.+)\]$/.exec(text) ?? []
  if (task === undefined || instance === undefined) return { task: text, ...(path !== undefined && { path }) }
  if (path !== undefined) throw new InputError(`${text} names an instance; leave out --index and --path`)
  return /^\d+(\.\d+)*$/.test(instance) ? { task, path: instance } : { task, label: instance }
}

/** Parses a list such as `fast,slow`, without duplicates. */
export const parseNames = (flag: string, text: string): string[] => {
  const names = text.split(",").map((name) => name.trim())
  if (names.includes("")) throw new InputError(`${flag}: "${text}" has an empty name; write it like fast,slow`)
  return [...new Set(names)]
}

/** Reads the values of `--label`, each a list of names. */
export const parseLabels = (values: readonly string[]): string[] => {
  const labels = [...new Set(values.flatMap((text) => parseNames("--label", text)))]
  if (labels.length > MAX_LABELS) throw new InputError(`--label: at most ${MAX_LABELS} labels are allowed`)
  return labels
}
