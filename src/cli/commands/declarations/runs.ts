// Declarations of the commands that start, read and control runs.

import {
  type Declare,
  jsonOption,
  RUN_ARGUMENT,
  withConcurrency,
  withCreatedRange,
  withExamples,
  withHandlers,
  withInstance,
  withLimit,
  withParams,
  withServer,
  withServerOrStore,
  withStore,
} from "./options.ts"
import type { ApproveOptions } from "../approve.ts"
import type { CancelOptions } from "../cancel.ts"
import type { ExplainOptions } from "../explain.ts"
import type { LogsOptions } from "../logs.ts"
import type { PauseOptions } from "../pause.ts"
import type { RetryOptions } from "../retry.ts"
import type { RunOptions } from "../run.ts"
import type { RunsOptions } from "../runs.ts"
import type { ShowOptions } from "../show.ts"

export const declareRun: Declare = ({ program, context, action }) => {
  const command = withConcurrency(
    withParams(
      program
        .command("run [file]")
        .description(
          "run a workflow in this process with live progress; exit 0 success, 1 failed, 2 bad input, 130 interrupted",
        ),
    ),
  )
    .option("--resume <run>", `continue a run (${RUN_ARGUMENT}) with its stored definition`)
    .option("--json", "print one JSON object per event, then the run")
  withExamples(withStore(withHandlers(command)), "ork run etl.yaml --param date=2026-01-31", "ork run --resume latest").action(
    action(async (file: string | undefined, options: RunOptions) => (await import("../run.ts")).run(context, file, options)),
  )
}

export const declareRuns: Declare = ({ program, context, action }) => {
  const command = program
    .command("runs")
    .description("list runs, newest first")
    .option("--workflow <name>", "runs of this workflow")
    .option("--status <status>", "pending, running, success, failed or cancelled")
    .option("--trigger <trigger>", "manual, schedule, webhook, backfill or workflow")
  withExamples(
    withServerOrStore(withLimit(withCreatedRange(command)).addOption(jsonOption())),
    "ork runs --status failed",
  ).action(action(async (options: RunsOptions) => (await import("../runs.ts")).runs(context, options)))
}

export const declareShow: Declare = ({ program, context, action }) => {
  const command = program
    .command("show <run>")
    .description(`show a run and its tasks with their attempts; RUN is ${RUN_ARGUMENT}`)
    .addOption(jsonOption())
  withExamples(withServerOrStore(command), "ork show latest").action(
    action(async (run: string, options: ShowOptions) => (await import("../show.ts")).show(context, run, options)),
  )
}

export const declareLogs: Declare = ({ program, context, action }) => {
  const command = withInstance(
    program.command("logs <run> <task>").description("print the log of a task's latest attempt, or of another attempt"),
  )
    .option("--attempt <n>", "number of the attempt")
    .option("-f, --follow", "keep printing until the task finishes")
    .option("--json", "print one JSON object per line: at, stream, line")
  withExamples(withServerOrStore(command), "ork logs latest load --index 3 -f").action(
    action(async (run: string, task: string, options: LogsOptions) =>
      (await import("../logs.ts")).logs(context, run, task, options),
    ),
  )
}

export const declareExplain: Declare = ({ program, context, action }) => {
  const command = program
    .command("explain <run> [task]")
    .description(`explain why each task of a run waits, was skipped or failed; RUN is ${RUN_ARGUMENT}`)
    .addOption(jsonOption())
  withExamples(withServerOrStore(command), "ork explain latest", "ork explain latest load").action(
    action(async (run: string, task: string | undefined, options: ExplainOptions) =>
      (await import("../explain.ts")).explain(context, run, task, options),
    ),
  )
}

export const declareCancel: Declare = ({ program, context, action }) => {
  const command = program.command("cancel <run>").description(`cancel a run; RUN is ${RUN_ARGUMENT}`).addOption(jsonOption())
  withExamples(withServer(command), "ork cancel latest").action(
    action(async (run: string, options: CancelOptions) => (await import("../cancel.ts")).cancel(context, run, options)),
  )
}

export const declareRetry: Declare = ({ program, context, action }) => {
  const command = program
    .command("retry <run>")
    .description("run failed, skipped and cancelled tasks again; successful tasks are kept")
    .option("--from <task>", "this task and everything downstream, whatever their status")
    .option("--task <task>", "one instance of this task and everything downstream")
    .option("--index <n>", "index of the instance of --task")
    .option("--path <path>", "path of the instance of --task inside groups, such as 1.2")
    .option("--plan", "print what would run, and run nothing")
    .addOption(jsonOption())
  withExamples(
    withServer(command),
    "ork retry latest",
    "ork retry latest --from load --plan",
    "ork retry latest --task load --index 3",
  ).action(action(async (run: string, options: RetryOptions) => (await import("../retry.ts")).retry(context, run, options)))
}

const APPROVALS = {
  approve: {
    description: "approve a task that waits for approval: it succeeds",
    comment: "stored with the approval",
    approved: true,
  },
  reject: { description: "reject a task that waits for approval: it fails", comment: "the error of the task", approved: false },
} as const

export const declareApprovals: Declare = ({ program, context, action }) => {
  for (const [name, { description, comment, approved }] of Object.entries(APPROVALS)) {
    const command = withInstance(
      program
        .command(`${name} <run> <task>`)
        .description(`${description}; RUN is ${RUN_ARGUMENT}`)
        .option("--comment <text>", comment),
    ).addOption(jsonOption())
    withExamples(withServerOrStore(command), `ork ${name} latest ship --comment "reviewed"`).action(
      action(async (run: string, task: string, options: ApproveOptions) =>
        (await import("../approve.ts")).approve(context, { run, task, approved }, options),
      ),
    )
  }
}

const PAUSES = {
  pause: { description: "stop starting tasks of a run, or runs of a workflow's schedule", paused: true },
  resume: { description: "resume a paused run, or a workflow's paused schedule", paused: false },
} as const

export const declarePauses: Declare = ({ program, context, action }) => {
  for (const [name, { description, paused }] of Object.entries(PAUSES)) {
    const command = program
      .command(name)
      .argument("<target>", `a run (${RUN_ARGUMENT}) or the name of a workflow`)
      .description(description)
      .addOption(jsonOption())
    withExamples(withServer(command), `ork ${name} etl`, `ork ${name} latest`).action(
      action(async (target: string, options: PauseOptions) =>
        (await import("../pause.ts")).setPaused(context, target, paused, options),
      ),
    )
  }
}
