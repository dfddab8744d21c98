// The program: all commands in the order in which help lists them, and the exit code of a call.

import { Command, CommanderError } from "commander"
import { declareCompletion, declareDoctor, declareGc, declareKeys, declareMigrate } from "./commands/declarations/admin.ts"
import { declareJobs, declareQueues } from "./commands/declarations/jobs.ts"
import type { Declare } from "./commands/declarations/options.ts"
import { declareExec, declareServe, declareWorker, declareWorkers } from "./commands/declarations/processes.ts"
import {
  declareApprovals,
  declareCancel,
  declareExplain,
  declareLogs,
  declarePauses,
  declareRetry,
  declareRun,
  declareRuns,
  declareShow,
} from "./commands/declarations/runs.ts"
import {
  declareBackfill,
  declareDeploy,
  declareGraph,
  declareSchedules,
  declareTrigger,
  declareValidate,
} from "./commands/declarations/workflows.ts"
import type { Context } from "./target/context.ts"
import { describeError } from "./terminal/errors.ts"
import { printError } from "./terminal/output.ts"

const DECLARATIONS: readonly Declare[] = [
  declareRun,
  declareServe,
  declareValidate,
  declareGraph,
  declareRuns,
  declareShow,
  declareLogs,
  declareDeploy,
  declareTrigger,
  declareExplain,
  declareCancel,
  declareRetry,
  declareApprovals,
  declarePauses,
  declareBackfill,
  declareJobs,
  declareQueues,
  declareSchedules,
  declareWorkers,
  declareWorker,
  declareKeys,
  declareExec,
  declareMigrate,
  declareGc,
  declareDoctor,
  declareCompletion,
]

/** Runs one command line and returns the exit code. */
export const main = async (context: Context, args: string[]): Promise<number> => {
  const program = createProgram(context)
  let exitCode = 0
  const scope = {
    program,
    context,
    action:
      <Args extends unknown[]>(run: (...given: Args) => Promise<number>) =>
      async (...given: Args): Promise<void> => {
        exitCode = await run(...given)
      },
  }
  for (const declare of DECLARATIONS) declare(scope)
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
