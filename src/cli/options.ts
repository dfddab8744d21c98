// Options that commands have in common, and how a command is put into the program.

import { type Command, Option } from "commander"
import type { Context } from "./target/backends.ts"

/** Adds a command; `done` takes its exit code. */
export type Add = (program: Command, context: Context, done: (exitCode: number) => void) => void

export const example = (command: Command, ...lines: string[]): Command =>
  command.addHelpText("after", `\nExamples:\n${lines.map((line) => `  ${line}`).join("\n")}`)

export const withStore = (command: Command): Command =>
  command
    .option("--database-url <url>", "where runs are kept: sqlite:FILE or postgres://… (ORK_DATABASE_URL)")
    .option("--object-store <url>", "where logs and large outputs are kept: file:FOLDER, s3://… or gs://… (ORK_OBJECT_STORE)")

export const withServer = (command: Command): Command =>
  command
    .option("--url <url>", "the server to speak to (ORK_URL; else the one of this folder)")
    .option("--api-key <key>", "the key to show it (ORK_API_KEY; else .ork/admin.key)")

/** For commands that ask a server where there is one, and read the store where there is none. */
export const withBoth = (command: Command): Command => withStore(withServer(command))

export const json = (): Option => new Option("--json", "as JSON, in the API's shapes")

/** An option that may be repeated. */
export const many = (value: string, all: string[]): string[] => [...all, value]

export const withHandlers = (command: Command): Command =>
  command.option("--handlers <file>", "handlers of jobs, and registered functions; may be repeated (ORK_HANDLERS)", many, [])

export const params = (command: Command): Command =>
  command
    .option("-p, --param <name=value>", "a param of the workflow; may be repeated", many, [])
    .option("--params-file <file>", "params from a YAML or JSON file; --param wins")
