// What may come next on a command line, found from the commands themselves: names of commands, options, values that are known, and
// names that a server knows. Pure but for `names`.

import type { Command, Option } from "commander"

/** Names that a server is asked for, by what an argument or an option's value is called. */
export type NameKind = "workflow" | "run" | "queue"

export interface Found {
  words: string[]
  /** Files may come too. */
  files: boolean
}

const NOTHING: Found = { words: [], files: false }
const FILE_NAMES: readonly string[] = ["file", "files"]
const KINDS: Readonly<Record<string, readonly NameKind[]>> = {
  workflow: ["workflow"],
  run: ["run"],
  target: ["workflow", "run"],
  queue: ["queue"],
}

const VALUES: Readonly<Record<string, readonly string[]>> = {
  "--scope": ["read", "trigger", "worker", "admin"],
  "--trigger": ["manual", "schedule", "webhook", "backfill", "workflow"],
  "--format": ["text", "mermaid", "dot"],
}
const STATUSES: Readonly<Record<string, readonly string[]>> = {
  runs: ["pending", "running", "success", "failed", "cancelled"],
  list: ["PENDING", "READY", "RUNNING", "COMPLETED", "FAILED", "BLOCKED"],
}

/** `words`: what was typed after `ork`, the last one being the one to complete. */
export const candidates = async (
  program: Command,
  words: readonly string[],
  names: (kind: NameKind) => Promise<string[]>,
): Promise<Found> => {
  const typed = words.slice(0, -1)
  const current = words.at(-1) ?? ""
  const { command, given, pending } = walk(program, typed)
  const found = pending !== null ? await valuesOf(command, pending, names) : await next(command, given, current, names)
  return { ...found, words: found.words.filter((word) => word.startsWith(current)).toSorted() }
}

interface Place {
  command: Command
  /** Arguments that the command has already. */
  given: number
  /** The option whose value is due. */
  pending: Option | null
}

const walk = (program: Command, typed: readonly string[]): Place => {
  const place: Place = { command: program, given: 0, pending: null }
  for (const word of typed) {
    if (place.pending !== null) place.pending = null
    else if (word.startsWith("-")) place.pending = takesValue(place.command, word)
    else {
      const below = place.given === 0 ? place.command.commands.find((each) => each.name() === word) : undefined
      if (below === undefined) place.given += 1
      else place.command = below
    }
  }
  place.command = placeOf(place)
  return place
}

/** `ork jobs --queue …` speaks to the list. */
const placeOf = ({ command, given, pending }: Place): Command => {
  const list = command.commands.find((each) => each.name() === "list")
  return list !== undefined && (given > 0 || pending !== null) ? list : command
}

const optionsOf = (command: Command): Option[] => {
  const list = command.commands.find((each) => each.name() === "list")
  return [...command.options, ...(list?.options ?? [])].filter((option) => !option.hidden)
}

const takesValue = (command: Command, word: string): Option | null => {
  if (word.includes("=")) return null
  const option = optionsOf(command).find((each) => each.long === word || each.short === word)
  return option?.required === true ? option : null
}

const next = async (
  command: Command,
  given: number,
  current: string,
  names: (kind: NameKind) => Promise<string[]>,
): Promise<Found> => {
  if (current.startsWith("-")) {
    return { words: [...optionsOf(command).flatMap(({ long }) => long ?? []), "--help"], files: false }
  }
  const below = given === 0 ? visible(command) : []
  const { registeredArguments: all } = command
  const argument = all[given] ?? (all.at(-1)?.variadic === true ? all.at(-1) : undefined)
  if (argument === undefined) return { words: below, files: false }
  const { words, files } = await named(argument.name(), names)
  return { words: [...below, ...words, ...(argument.argChoices ?? [])], files }
}

/** Commands that help shows. */
const visible = (command: Command): string[] =>
  command
    .createHelp()
    .visibleCommands(command)
    .map((each) => each.name())

const valuesOf = (command: Command, option: Option, names: (kind: NameKind) => Promise<string[]>): Promise<Found> => {
  const known = option.long === "--status" ? STATUSES[command.name()] : VALUES[option.long ?? ""]
  if (known !== undefined) return Promise.resolve({ words: [...known], files: false })
  if (option.long === "--workflow") return named("workflow", names)
  if (option.long === "--queue") return named("queue", names)
  return named(/<([a-z]+)/.exec(option.flags)?.[1] ?? "", names)
}

const named = async (name: string, names: (kind: NameKind) => Promise<string[]>): Promise<Found> => {
  if (FILE_NAMES.includes(name)) return { words: [], files: true }
  const kinds = KINDS[name]
  if (kinds === undefined) return NOTHING
  return { words: (await Promise.all(kinds.map(names))).flat(), files: false }
}
