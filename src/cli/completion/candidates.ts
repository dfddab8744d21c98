// Completes a command line from the declared commands: names of commands, options, values of options, and names that a server
// knows. Pure, except for `namesOf`.

import type { Command, Option } from "commander"
import type { NameKind } from "./names.ts"
import { GRAPH_FORMATS } from "../../core/model/render-graph.ts"
import { RUN_STATUSES } from "../../core/model/status.ts"
import { JOB_STATUSES } from "../../core/rules/jobs/jobs.ts"
import { KEY_SCOPES } from "../../store/contract/keys.ts"
import { TRIGGERS } from "../../store/contract/store.ts"

/** `typed`: the arguments typed before, of which a task name needs the run. */
type NamesOf = (kind: NameKind, typed: readonly string[]) => Promise<string[]>

interface Candidates {
  words: string[]
  /** True if the shell also completes file names. */
  files: boolean
}

const FILE_NAMES: readonly string[] = ["file", "files"]
/** By the name of an argument or of an option's value. */
const NAME_KINDS: Readonly<Record<string, readonly NameKind[]>> = {
  workflow: ["workflow"],
  run: ["run"],
  target: ["workflow", "run"],
  queue: ["queue"],
  task: ["task"],
}

/** Values of options, by flag. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  "--scope": KEY_SCOPES,
  "--trigger": TRIGGERS,
  "--format": GRAPH_FORMATS,
}
/** Values of `--status`, by command. */
const STATUSES: Readonly<Record<string, readonly string[]>> = {
  runs: RUN_STATUSES,
  list: JOB_STATUSES,
}

/** Returns the candidates for the last of the typed words, and `:files` if file names may follow. */
export const candidates = async (program: Command, words: readonly string[], namesOf: NamesOf): Promise<string[]> => {
  const current = words.at(-1) ?? ""
  const position = findPosition(program, words.slice(0, -1))
  const found =
    position.pending === null
      ? await completeWord(position, current, namesOf)
      : await completeValue(position, position.pending, namesOf)
  const matching = found.words.filter((word) => word.startsWith(current)).toSorted()
  return found.files ? [...matching, ":files"] : matching
}

interface Position {
  command: Command
  /** Arguments typed. */
  given: readonly string[]
  /** Option whose value comes next. */
  pending: Option | null
}

const findPosition = (program: Command, typed: readonly string[]): Position => {
  let command = program
  const given: string[] = []
  let pending: Option | null = null
  for (const word of typed) {
    if (pending !== null) pending = null
    else if (word.startsWith("-")) pending = optionWithValue(command, word)
    else {
      const subcommand = given.length === 0 ? command.commands.find((each) => each.name() === word) : undefined
      if (subcommand === undefined) given.push(word)
      else command = subcommand
    }
  }
  // `ork jobs --queue …` runs `ork jobs list --queue …`.
  const isList = given.length > 0 || pending !== null
  return { command: (isList ? listCommand(command) : undefined) ?? command, given, pending }
}

const listCommand = (command: Command): Command | undefined => command.commands.find((each) => each.name() === "list")

const optionsOf = (command: Command): Option[] =>
  [...command.options, ...(listCommand(command)?.options ?? [])].filter((option) => !option.hidden)

/** Returns null for an option without a value, or with a value in the same word. */
const optionWithValue = (command: Command, word: string): Option | null => {
  if (word.includes("=")) return null
  const option = optionsOf(command).find((each) => each.long === word || each.short === word)
  return option?.required === true ? option : null
}

const completeWord = async ({ command, given }: Position, current: string, namesOf: NamesOf): Promise<Candidates> => {
  if (current.startsWith("-")) {
    return { words: [...optionsOf(command).flatMap(({ long }) => long ?? []), "--help"], files: false }
  }
  const subcommands = given.length === 0 ? visibleCommands(command) : []
  const { registeredArguments: all } = command
  const argument = all[given.length] ?? (all.at(-1)?.variadic === true ? all.at(-1) : undefined)
  if (argument === undefined) return { words: subcommands, files: false }
  const { words, files } = await completeName(argument.name(), given, namesOf)
  return { words: [...subcommands, ...words, ...(argument.argChoices ?? [])], files }
}

const visibleCommands = (command: Command): string[] =>
  command
    .createHelp()
    .visibleCommands(command)
    .map((each) => each.name())

const completeValue = async ({ command, given }: Position, option: Option, namesOf: NamesOf): Promise<Candidates> => {
  const known = option.long === "--status" ? STATUSES[command.name()] : VALUES[option.long ?? ""]
  if (known !== undefined) return { words: [...known], files: false }
  if (option.long === "--workflow") return completeName("workflow", given, namesOf)
  if (option.long === "--queue") return completeName("queue", given, namesOf)
  return completeName(/<([a-z]+)/.exec(option.flags)?.[1] ?? "", given, namesOf)
}

const completeName = async (name: string, given: readonly string[], namesOf: NamesOf): Promise<Candidates> => {
  if (FILE_NAMES.includes(name)) return { words: [], files: true }
  const kinds = NAME_KINDS[name] ?? []
  return { words: (await Promise.all(kinds.map((kind) => namesOf(kind, given)))).flat(), files: false }
}
