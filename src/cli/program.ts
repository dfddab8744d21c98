// The commands, their options and their help. A command's own code is loaded when it is called: most of the start-up time of a
// short command would else go into modules that it never uses.

import { Command, CommanderError } from "commander"
import type { Context } from "./target/backends.ts"
import { addCompletion } from "./completion/commands.ts"
import { explain } from "./terminal/errors.ts"
import { type Add, example, json, params, withBoth, withHandlers, withStore } from "./options.ts"
import { printError } from "./terminal/output.ts"
import { SERVER_COMMANDS } from "./server-commands.ts"

/** Runs the command line; gives the exit code. */
export const main = async (context: Context, args: string[]): Promise<number> => {
  let exitCode = 0
  const program = buildProgram(context, (code) => (exitCode = code))
  try {
    await program.parseAsync(args, { from: "user" })
    return exitCode
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    const { lines, exitCode: code } = explain(error)
    for (const line of lines) printError(context, line)
    return code
  }
}

const buildProgram = (context: Context, done: (exitCode: number) => void): Command => {
  const program = new Command("ork")
    .description("Runs workflows: graphs of tasks, in the right order, as real processes.")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void context.stdout.write(text),
      writeErr: (text) => void context.stderr.write(text),
      outputError: (text, write) => write(oneLine(text)),
    })
    .version(`ork ${context.version()}`, "--version", "show the version")
    .helpCommand(false)
  const local = [addRun, addServe, addValidate, addGraph, addRuns, addShow, addLogs]
  for (const add of [...local, ...SERVER_COMMANDS, addExec, addMigrate, addGc, addDoctor, addCompletion])
    add(program, context, done)
  return program
}

/** `error: unknown command 'rum'\n(Did you mean run?)` as one line of Ork's. */
const oneLine = (text: string): string =>
  `${text
    .trim()
    .replace(/^error: /, "ork: ")
    .replaceAll("\n", " ")}; see ork --help\n`

const withRunning = (command: Command): Command => withStore(withHandlers(command))

const addRun: Add = (program, context, done) => {
  const command = withRunning(
    params(
      program
        .command("run [file]")
        .description("run a workflow here and now, with live progress; exit 0 success, 1 failed, 2 bad input, 130 interrupted"),
    )
      .option("--concurrency <n>", "tasks at once on this machine (ORK_CONCURRENCY; 4 per core, at least 16)")
      .option("--resume <run>", "go on with a run (an id, the beginning of one, or latest) and its stored definition")
      .option("--json", "one JSON object per event, last the run"),
  )
  example(command, "ork run etl.yaml --param date=2026-01-31", "ork run --resume latest").action(
    async (file: string | undefined, options: import("./commands/run.ts").RunOptions) => {
      const { run } = await import("./commands/run.ts")
      done(await run(context, file, options))
    },
  )
}

const addServe: Add = (program, context, done) => {
  const command = withRunning(
    program
      .command("serve")
      .description("serve the API and run what it is asked for: schedules, triggers, jobs")
      .option("--host <host>", "address to listen at (ORK_HOST; 127.0.0.1)")
      .option("--port <port>", "port to listen at, 0 for a free one (ORK_PORT; 4000)")
      .option("--dir <folder>", "deploy every definition of a folder, and follow its changes")
      .option("--queue <names>", "take work from these queues only, such as fast,slow")
      .option("--no-worker", "take no work: leave it to others")
      .option("--concurrency <n>", "tasks at once on this machine (ORK_CONCURRENCY; 4 per core, at least 16)"),
  )
  example(command, "ork serve --dir workflows", "ORK_PORT=8000 ork serve --queue fast").action(
    async (options: import("./commands/serve.ts").ServeOptions) => {
      const { serve } = await import("./commands/serve.ts")
      done(await serve(context, options))
    },
  )
}

const addValidate: Add = (program, context, done) => {
  const command = program
    .command("validate <files...>")
    .description("check definitions and list every problem; stores nothing; exit 2 if there is one")
    .addOption(json())
  example(command, "ork validate etl.yaml", "ork validate workflows/*.yaml --json").action(
    async (files: string[], options: import("./commands/validate.ts").ValidateOptions) => {
      const { validate } = await import("./commands/validate.ts")
      done(await validate(context, files, options))
    },
  )
}

const addGraph: Add = (program, context, done) => {
  const command = program
    .command("graph <file>")
    .description("show the tasks of a workflow and what they wait for")
    .option("--format <format>", "text, mermaid or dot", "text")
  example(command, "ork graph etl.yaml", "ork graph etl.yaml --format dot | dot -Tsvg > etl.svg").action(
    async (file: string, options: import("./commands/graph.ts").GraphOptions) => {
      const { graph } = await import("./commands/graph.ts")
      done(await graph(context, file, options))
    },
  )
}

const addRuns: Add = (program, context, done) => {
  const command = withBoth(
    program
      .command("runs")
      .description("list runs, newest first")
      .option("--workflow <name>", "only runs of this workflow")
      .option("--status <status>", "only pending, running, success, failed or cancelled ones")
      .option("--trigger <trigger>", "only those started by manual, schedule, webhook, backfill or workflow")
      .option("--created-after <date>", "this instant and later")
      .option("--created-before <date>", "earlier than this instant")
      .option("--limit <n>", "at most so many", "20")
      .addOption(json()),
  )
  example(command, "ork runs --status failed").action(async (options: import("./commands/runs.ts").RunsOptions) => {
    const { runs } = await import("./commands/runs.ts")
    done(await runs(context, options))
  })
}

const addShow: Add = (program, context, done) => {
  const command = withBoth(
    program
      .command("show <run>")
      .description("show a run and its tasks with their attempts; RUN is an id, the beginning of one, or latest")
      .addOption(json()),
  )
  example(command, "ork show latest").action(async (run: string, options: import("./commands/show.ts").ShowOptions) => {
    const { show } = await import("./commands/show.ts")
    done(await show(context, run, options))
  })
}

const addLogs: Add = (program, context, done) => {
  const command = withBoth(
    program
      .command("logs <run> <task>")
      .description("print what a task wrote; its latest attempt unless another is asked for")
      .option("--index <n>", "which instance of a fan-out")
      .option("--path <path>", "which instance inside of groups, such as 1.2")
      .option("--attempt <n>", "which attempt")
      .option("-f, --follow", "go on until the task ends")
      .option("--json", "one JSON object per line: at, stream, line"),
  )
  example(command, "ork logs latest load --index 3 -f").action(
    async (run: string, task: string, options: import("./commands/logs.ts").LogsOptions) => {
      const { logs } = await import("./commands/logs.ts")
      done(await logs(context, run, task, options))
    },
  )
}

const addExec: Add = (program, context, done) => {
  const command = program
    .command("exec")
    .description("run one task from its spec in the object store: what a container runs; exit as the task did")
    .option("--spec <key>", "the spec: a key, or a whole address such as s3://bucket/runs/…/spec.json (TASK_SPEC_PATH)")
    .option("--object-store <url>", "where the spec lies, and log and output go (ORK_OBJECT_STORE)")
  example(command, "TASK_SPEC_PATH=runs/…/spec.json ORK_OBJECT_STORE=s3://bucket/ork ork exec").action(
    async (options: import("./commands/exec.ts").ExecOptions) => {
      const { exec } = await import("./commands/exec.ts")
      done(await exec(context, options))
    },
  )
}

const addMigrate: Add = (program, context, done) => {
  const command = withStore(
    program
      .command("migrate")
      .description("make the database, or bring it to the version that this Ork knows")
      .addOption(json()),
  )
  example(command, "ork migrate --database-url postgres://ork@db/ork").action(
    async (options: import("./commands/migrate.ts").MigrateOptions) => {
      const { migrate } = await import("./commands/migrate.ts")
      done(await migrate(context, options))
    },
  )
}

const addGc: Add = (program, context, done) => {
  const command = withStore(
    program
      .command("gc")
      .description("remove ended runs with their logs and outputs; with both options, those that either one names")
      .option("--older-than <age>", "runs that ended longer ago, such as 30d or 12h")
      .option("--keep <n>", "all but the newest so many of each workflow")
      .addOption(json()),
  )
  example(command, "ork gc --older-than 30d --keep 100").action(async (options: import("./commands/gc.ts").GcOptions) => {
    const { gc } = await import("./commands/gc.ts")
    done(await gc(context, options))
  })
}

const addDoctor: Add = (program, context, done) => {
  const command = withBoth(
    program
      .command("doctor")
      .description("show what this machine offers and whether the stores and the server work; exit 1 if not")
      .addOption(json()),
  )
  example(command, "ork doctor").action(async (options: import("./commands/doctor.ts").DoctorOptions) => {
    const { doctor } = await import("./commands/doctor.ts")
    done(await doctor(context, options))
  })
}
