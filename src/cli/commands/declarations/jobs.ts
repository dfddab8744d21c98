// Declarations of the commands for jobs and queues.

import {
  collect,
  commandFamily,
  type Declare,
  jsonOption,
  withCreatedRange,
  withExamples,
  withLimit,
  withServer,
} from "./options.ts"
import type { JobLogsOptions, JobOptions, JobsOptions, SubmitOptions } from "../jobs.ts"
import type { QueuesOptions, SetQueueOptions } from "../queues.ts"

const load = () => import("../jobs.ts")

export const declareJobs: Declare = (scope) => {
  const program = commandFamily(scope.program, "jobs", "list, submit, show and cancel single jobs of priority queues")
  for (const declare of [declareList, declareSubmit, declareShow, declareCancel, declareLogs]) declare({ ...scope, program })
}

const declareList: Declare = ({ program, context, action }) => {
  const command = program
    .command("list", { isDefault: true })
    .description("list jobs, newest first")
    .option("--queue <name>", "jobs of this queue")
    .option("--status <status>", "PENDING, READY, RUNNING, COMPLETED, FAILED or BLOCKED")
    .option("--priority-min <n>", "lowest priority")
    .option("--priority-max <n>", "highest priority")
  withExamples(
    withServer(withLimit(withCreatedRange(command)).addOption(jsonOption())),
    "ork jobs --queue mail --status failed",
  ).action(action(async (options: JobsOptions) => (await load()).listJobs(context, options)))
}

const declareSubmit: Declare = ({ program, context, action }) => {
  const command = program
    .command("submit [name]")
    .description("submit a job, or the jobs of a file")
    .option("--queue <name>", "queue of the job")
    .option("--payload <json>", "input of the job")
    .option("--priority <n>", "1 (lowest) to 10 (highest)")
    .option("--after <id>", "job that must complete first; may be repeated", collect, [])
    .option("--command <command>", "shell command to run; otherwise a handler of the queue runs the job")
    .option("--max-attempts <n>", "1 to 10")
    .option("--concurrency-key <key>", "jobs with the same key share slots")
    .option("--id <id>", "UUID for the job")
    .option("--file <file>", "YAML or JSON file with a job or a list of jobs, in the format of the API")
    .addOption(jsonOption())
  withExamples(
    withServer(command),
    "ork jobs submit report --queue mail --command 'echo hello'",
    "ork jobs submit --file jobs.yaml",
  ).action(action(async (name: string | undefined, options: SubmitOptions) => (await load()).submitJob(context, name, options)))
}

const declareShow: Declare = ({ program, context, action }) => {
  const command = program.command("show <job>").description("show a job and its result").addOption(jsonOption())
  withServer(command).action(action(async (id: string, options: JobOptions) => (await load()).showJob(context, id, options)))
}

const declareCancel: Declare = ({ program, context, action }) => {
  const command = program
    .command("cancel <job>")
    .description("cancel a job: it becomes FAILED, and the jobs that depend on it BLOCKED")
    .addOption(jsonOption())
  withServer(command).action(action(async (id: string, options: JobOptions) => (await load()).cancelJob(context, id, options)))
}

const declareLogs: Declare = ({ program, context, action }) => {
  const command = program
    .command("logs <job>")
    .description("print the log of a job's latest attempt")
    .option("-f, --follow", "keep printing until the job finishes")
    .option("--json", "print one JSON object per line: at, stream, line")
  withServer(command).action(
    action(async (id: string, options: JobLogsOptions) => (await load()).jobLogs(context, id, options)),
  )
}

export const declareQueues: Declare = ({ program, context, action }) => {
  const queues = commandFamily(program, "queues", "list queues, and set their limits")
  const list = queues
    .command("list", { isDefault: true })
    .description("list queues with their depth and limits")
    .addOption(jsonOption())
  withServer(list).action(action(async (options: QueuesOptions) => (await import("../queues.ts")).listQueues(context, options)))
  const set = queues
    .command("set <queue>")
    .description("set limits of a queue; limits that are not named keep their value")
    .option("--concurrency <n>", "concurrent tasks and jobs, or none for no limit")
    .option("--rate <n/time>", "starts per period, such as 10/1m, or none for no limit")
    .option("--pause", "start nothing from this queue")
    .option("--resume", "start work from this queue again")
    .addOption(jsonOption())
  withExamples(withServer(set), "ork queues set mail --concurrency 4 --rate 10/1m").action(
    action(async (name: string, options: SetQueueOptions) => (await import("../queues.ts")).setQueue(context, name, options)),
  )
}
