// The program: all commands in the groups and the order in which help lists them, and the exit code of a call.

import { Command, CommanderError } from "commander"
import { ADMIN_COMMANDS } from "./commands/specs/admin.ts"
import { addCommand, type CommandFunction } from "./commands/specs/command-spec.ts"
import { JOB_COMMANDS } from "./commands/specs/jobs.ts"
import { PROCESS_COMMANDS } from "./commands/specs/processes.ts"
import { RUN_COMMANDS } from "./commands/specs/runs.ts"
import { WORKFLOW_COMMANDS } from "./commands/specs/workflows.ts"
import type { Context } from "./target/context.ts"
import { describeError } from "./terminal/errors.ts"
import { printError } from "./terminal/output.ts"

const GROUPS = {
  "Runs:": RUN_COMMANDS,
  "Workflows:": WORKFLOW_COMMANDS,
  "Jobs and queues:": JOB_COMMANDS,
  "Servers and workers:": PROCESS_COMMANDS,
  "Administration:": ADMIN_COMMANDS,
} as const

export const main = async (context: Context, args: string[]): Promise<number> => {
  const program = createProgram(context)
  let exitCode = 0
  const run = async (load: () => Promise<CommandFunction>, given: unknown[]): Promise<void> => {
    exitCode = await (await load())(context, ...(given as never[]))
  }
  for (const [heading, specs] of Object.entries(GROUPS)) {
    program.commandsGroup(heading)
    for (const spec of specs) addCommand(program, spec, run)
  }
  try {
    await program.parseAsync(args, { from: "user" })
    return exitCode
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    const { lines, exitCode: code } = describeError(error)
    for (const line of lines) printError(context, line)
    return code
  }
}

const createProgram = (context: Context): Command =>
  new Command("ork")
    .description("Runs workflows: graphs of tasks, in dependency order, as processes.")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void context.stdout.write(text),
      writeErr: (text) => void context.stderr.write(text),
      outputError: (text, write) => write(singleLine(text)),
    })
    .version(`ork ${context.version()}`, "--version", "show the version")
    .helpCommand(false)

/** Formats commander's `error: unknown command 'rum'\n(Did you mean run?)` as one line that begins with `ork:`. */
const singleLine = (text: string): string =>
  `${text
    .trim()
    .replace(/^error: /, "ork: ")
    .replaceAll("\n", " ")}; see ork --help\n`
