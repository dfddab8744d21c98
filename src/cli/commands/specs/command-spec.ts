// The form in which commands are declared, and options that several commands share. Declarations are loaded on every start, so they
// import the code of a command only when it is called.

import { type Argument, type Command, Option } from "commander"
import type { Context } from "../../target/context.ts"

/** Flags and description of an option. `repeated`: collects all values. `required`: must be given. */
export type OptionSpec = readonly [flags: string, description: string, kind?: "repeated" | "required" | { default: string }]

/** Arguments: the context, the positional arguments, the options, and the command of commander. Returns the exit code. */
export type CommandFunction = (context: Context, ...args: never[]) => Promise<number>

export interface CommandSpec {
  /** Name and positional arguments, such as `show <run>`. */
  usage: string
  description: string
  /** A positional argument with a description or with choices. */
  argument?: Argument
  options?: readonly OptionSpec[]
  examples?: readonly string[]
  /** The command runs if none of its siblings is named. */
  isDefault?: true
  hidden?: true
  /** Loads the code of the command; absent if it only has subcommands. */
  load?: () => Promise<CommandFunction>
  subcommands?: readonly CommandSpec[]
}

/** Adds a command to the program. `run` is called with its code and the arguments. */
export const addCommand = (
  parent: Command,
  { usage, description, argument, options = [], examples = [], load, subcommands = [], ...kind }: CommandSpec,
  run: (load: () => Promise<CommandFunction>, args: unknown[]) => Promise<void>,
): void => {
  const command = parent.command(usage, kind).description(description).helpCommand(false)
  if (argument !== undefined) command.addArgument(argument)
  for (const option of options) command.addOption(createOption(option))
  if (examples.length > 0) {
    command.addHelpText("after", `\nExamples:\n${examples.map((line) => `  ${line}`).join("\n")}`)
  }
  if (load !== undefined) command.action((...args: unknown[]) => run(load, args))
  for (const subcommand of subcommands) addCommand(command, subcommand, run)
}

const createOption = ([flags, description, kind]: OptionSpec): Option => {
  const option = new Option(flags, description)
  if (kind === undefined) return option
  if (kind === "required") return option.makeOptionMandatory()
  if (kind === "repeated") return option.default([]).argParser((value: string, all: string[]) => [...all, value])
  return option.default(kind.default)
}

export const RUN_ARGUMENT = "an id, its beginning or its last 8 characters, WORKFLOW#12, a workflow (its latest run), or latest"

export const JSON_OPTION: OptionSpec = ["--json", "print JSON in the format of the API"]

export const STORE_OPTIONS: readonly OptionSpec[] = [
  ["--database-url <url>", "database of runs: sqlite:FILE or postgres://… (ORK_DATABASE_URL)"],
  ["--object-store <url>", "store of logs and large outputs: file:FOLDER, s3://… or gs://… (ORK_OBJECT_STORE)"],
]

export const SERVER_OPTIONS: readonly OptionSpec[] = [
  ["--url <url>", "address of the server (ORK_URL; otherwise the server of this folder)"],
  ["--api-key <key>", "API key for the server (ORK_API_KEY; otherwise .ork/admin.key)"],
]

/** Options of commands that read from a server if there is one, and from the store otherwise. */
export const READER_OPTIONS: readonly OptionSpec[] = [...SERVER_OPTIONS, ...STORE_OPTIONS]

export const HANDLERS_OPTION: OptionSpec = [
  "--handlers <file>",
  "file with job handlers and registered functions; may be repeated (ORK_HANDLERS)",
  "repeated",
]

export const CONCURRENCY_OPTION: OptionSpec = [
  "--concurrency <n>",
  "concurrent tasks on this machine (ORK_CONCURRENCY; 4 per core, and up to 64 per core while the load allows it)",
]

export const PARAM_OPTIONS: readonly OptionSpec[] = [
  ["-p, --param <name=value>", "workflow param; may be repeated", "repeated"],
  ["--params-file <file>", "YAML or JSON file of params; --param takes precedence"],
]

export const INSTANCE_OPTIONS: readonly OptionSpec[] = [
  ["--index <n>", "index of the instance in a fan-out"],
  ["--path <path>", "path of the instance inside groups, such as 1.2"],
]

export const CREATED_OPTIONS: readonly OptionSpec[] = [
  ["--created-after <date>", "created at this instant or later"],
  ["--created-before <date>", "created before this instant"],
]

export const LIMIT_OPTION: OptionSpec = ["--limit <n>", "maximum number of entries", { default: "20" }]
