// Declarations of the commands for definitions and deployed workflows.

import { type Declare, jsonOption, withExamples, withLimit, withParams, withServer } from "./options.ts"
import type { BackfillOptions } from "../backfill.ts"
import type { DeployOptions } from "../deploy.ts"
import type { GraphOptions } from "../graph.ts"
import type { SchedulesOptions } from "../schedules.ts"
import type { TriggerOptions } from "../trigger.ts"
import type { ValidateOptions } from "../validate.ts"

export const declareValidate: Declare = ({ program, context, action }) => {
  const command = program
    .command("validate <files...>")
    .description("check definitions and list every problem, without storing anything; exit 2 if there is a problem")
    .addOption(jsonOption())
  withExamples(command, "ork validate etl.yaml", "ork validate workflows/*.yaml --json").action(
    action(async (files: string[], options: ValidateOptions) =>
      (await import("../validate.ts")).validate(context, files, options),
    ),
  )
}

export const declareGraph: Declare = ({ program, context, action }) => {
  const command = program
    .command("graph <file>")
    .description("show the tasks of a workflow and their dependencies")
    .option("--format <format>", "text, mermaid or dot", "text")
  withExamples(command, "ork graph etl.yaml", "ork graph etl.yaml --format dot | dot -Tsvg > etl.svg").action(
    action(async (file: string, options: GraphOptions) => (await import("../graph.ts")).graph(context, file, options)),
  )
}

export const declareDeploy: Declare = ({ program, context, action }) => {
  const command = program
    .command("deploy <files...>")
    .description(
      "deploy definitions (files, or folders of files) with the files that they name; deploys none if one has a problem",
    )
    .addOption(jsonOption())
  withExamples(withServer(command), "ork deploy etl.yaml", "ork deploy workflows/*.yaml --url https://ork.example.com").action(
    action(async (files: string[], options: DeployOptions) => (await import("../deploy.ts")).deploy(context, files, options)),
  )
}

export const declareTrigger: Declare = ({ program, context, action }) => {
  const command = withParams(
    program.command("trigger <workflow>").description("start a run of a deployed workflow and print its id"),
  )
    .option("--priority <n>", "1 (lowest) to 10 (highest)")
    .option("--idempotency-key <key>", "a repeated key returns the run that the first request created")
    .option("--logical-date <date>", "date that the run processes")
    .option("--wait", "follow the run until it finishes, with the output and exit codes of `ork run`")
    .option("--cancel-on-interrupt", "with --wait: Ctrl-C cancels the run instead of leaving it running")
    .option("--json", "print JSON; with --wait one object per event, then the run")
  withExamples(withServer(command), "ork trigger etl --param date=2026-01-31 --wait").action(
    action(async (name: string, options: TriggerOptions) => (await import("../trigger.ts")).trigger(context, name, options)),
  )
}

export const declareBackfill: Declare = ({ program, context, action }) => {
  const command = program
    .command("backfill <workflow>")
    .description("create one run for each tick of the schedule in a range; ticks that were backfilled before are skipped")
    .requiredOption("--from <date>", "first day or instant")
    .requiredOption("--to <date>", "last day or instant")
    .option("--max-active-runs <n>", "concurrent runs of this backfill")
    .option("--plan", "list the ticks, and create nothing")
    .addOption(jsonOption())
  withExamples(withServer(command), "ork backfill etl --from 2026-01-01 --to 2026-02-01 --plan").action(
    action(async (name: string, options: BackfillOptions) => (await import("../backfill.ts")).backfill(context, name, options)),
  )
}

export const declareSchedules: Declare = ({ program, context, action }) => {
  const command = program
    .command("schedules")
    .description("list schedules with their next five ticks")
    .option("--workflow <workflow>", "schedules of this workflow")
  withExamples(withServer(withLimit(command).addOption(jsonOption())), "ork schedules --workflow etl").action(
    action(async (options: SchedulesOptions) => (await import("../schedules.ts")).schedules(context, options)),
  )
}
