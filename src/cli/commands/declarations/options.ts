// Options that several commands share, and the shape of a command declaration. Declarations are loaded on every start, so they
// import the code of a command only inside its action.

import { type Command, Option } from "commander"
import type { Context } from "../../target/context.ts"

export interface DeclarationScope {
  program: Command
  context: Context
  /** Adapts a command function to commander: the returned number becomes the exit code of the process. */
  action<Args extends unknown[]>(run: (...args: Args) => Promise<number>): (...args: Args) => Promise<void>
}

/** Adds one command, or a family of commands, to the program. */
export type Declare = (scope: DeclarationScope) => void

export const RUN_ARGUMENT = "an id, the beginning of an id, or latest"

export const withExamples = (command: Command, ...lines: string[]): Command =>
  command.addHelpText("after", `\nExamples:\n${lines.map((line) => `  ${line}`).join("\n")}`)

export const withStore = (command: Command): Command =>
  command
    .option("--database-url <url>", "database of runs: sqlite:FILE or postgres://… (ORK_DATABASE_URL)")
    .option("--object-store <url>", "store of logs and large outputs: file:FOLDER, s3://… or gs://… (ORK_OBJECT_STORE)")

export const withServer = (command: Command): Command =>
  command
    .option("--url <url>", "address of the server (ORK_URL; otherwise the server of this folder)")
    .option("--api-key <key>", "API key for the server (ORK_API_KEY; otherwise .ork/admin.key)")

/** Adds the options of commands that read from a server if there is one, and from the store otherwise. */
export const withServerOrStore = (command: Command): Command => withStore(withServer(command))

export const jsonOption = (): Option => new Option("--json", "print JSON in the format of the API")

/** Collects the values of an option that may be repeated. */
export const collect = (value: string, all: string[]): string[] => [...all, value]

export const withHandlers = (command: Command): Command =>
  command.option(
    "--handlers <file>",
    "file with job handlers and registered functions; may be repeated (ORK_HANDLERS)",
    collect,
    [],
  )

export const withConcurrency = (command: Command): Command =>
  command.option("--concurrency <n>", "concurrent tasks on this machine (ORK_CONCURRENCY; 4 per core, at least 16)")

export const withParams = (command: Command): Command =>
  command
    .option("-p, --param <name=value>", "workflow param; may be repeated", collect, [])
    .option("--params-file <file>", "YAML or JSON file of params; --param takes precedence")

/** Adds the options that select one instance of a fan-out. */
export const withInstance = (command: Command): Command =>
  command
    .option("--index <n>", "index of the instance in a fan-out")
    .option("--path <path>", "path of the instance inside groups, such as 1.2")

export const withCreatedRange = (command: Command): Command =>
  command
    .option("--created-after <date>", "created at this instant or later")
    .option("--created-before <date>", "created before this instant")

export const withLimit = (command: Command): Command => command.option("--limit <n>", "maximum number of entries", "20")

/** Adds a command with subcommands. Without a subcommand it runs the one named `list`. */
export const commandFamily = (program: Command, name: string, description: string): Command =>
  program.command(name).description(description).helpCommand(false)
