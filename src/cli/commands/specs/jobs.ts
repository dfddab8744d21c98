// Commands for jobs and queues.

import { type CommandSpec, CREATED_OPTIONS, JSON_OPTION, LIMIT_OPTION, SERVER_OPTIONS } from "./command-spec.ts"

const JOB_SUBCOMMANDS: readonly CommandSpec[] = [
  {
    usage: "list",
    isDefault: true,
    description: "list jobs, newest first",
    options: [
      ["--name <name>", "jobs of this name"],
      ["--queue <name>", "jobs of this queue"],
      ["--status <status>", "PENDING, READY, RUNNING, COMPLETED, FAILED or BLOCKED, or several separated by commas"],
      ["--priority-min <n>", "lowest priority"],
      ["--priority-max <n>", "highest priority"],
      ...CREATED_OPTIONS,
      LIMIT_OPTION,
      JSON_OPTION,
      ...SERVER_OPTIONS,
    ],
    examples: ["ork jobs --queue mail --status failed"],
    load: async () => (await import("../jobs/jobs.ts")).listJobs,
  },
  {
    usage: "submit [name]",
    description: "submit a job, or the jobs of a file",
    options: [
      ["--queue <name>", "queue of the job"],
      ["--payload <json>", "input of the job"],
      ["--priority <n>", "1 (lowest) to 10 (highest)"],
      ["--after <id>", "job that must complete first; may be repeated", "repeated"],
      ["--command <command>", "shell command to run; otherwise a handler of the queue runs the job"],
      ["--function <name>", "registered function to run"],
      ["--max-attempts <n>", "1 to 10"],
      ["--concurrency-key <key>", "jobs with the same key share slots"],
      ["--concurrency-limit <n>", "jobs with the concurrency key that run at once; 1 by default"],
      ["--group <name>", "jobs of one queue and priority take turns by group"],
      ["--key <key>", "submit nothing if a job of this name has the key"],
      ["--delay <time>", "start after this time, such as 10m"],
      ["--run-at <time>", "start at this instant"],
      ["--timeout <time>", "limit of one attempt"],
      ["--expires <time>", "fail the job if it has not started by then"],
      ["--id <id>", "UUID for the job"],
      ["--file <file>", "YAML or JSON file with a job or a list of jobs, in the format of the API"],
      JSON_OPTION,
      ...SERVER_OPTIONS,
    ],
    examples: ["ork jobs submit report --queue mail --command 'echo hello'", "ork jobs submit --file jobs.yaml"],
    load: async () => (await import("../jobs/jobs.ts")).submitJob,
  },
  {
    usage: "show <job>",
    description: "show a job and its result",
    options: [JSON_OPTION, ...SERVER_OPTIONS],
    load: async () => (await import("../jobs/jobs.ts")).showJob,
  },
  {
    usage: "cancel <job>",
    description: "cancel a job: it becomes FAILED, and the jobs that depend on it BLOCKED",
    options: [JSON_OPTION, ...SERVER_OPTIONS],
    load: async () => (await import("../jobs/jobs.ts")).cancelJob,
  },
  {
    usage: "retry <job>",
    description: "run a FAILED job again",
    options: [JSON_OPTION, ...SERVER_OPTIONS],
    load: async () => (await import("../jobs/jobs.ts")).retryJob,
  },
  {
    usage: "explain <job>",
    description: "explain what a job waits for, or why it failed",
    options: [JSON_OPTION, ...SERVER_OPTIONS],
    load: async () => (await import("../jobs/jobs.ts")).explainJob,
  },
  {
    usage: "logs <job>",
    description: "print the log of a job's latest attempt",
    options: [
      ["-f, --follow", "keep printing until the job finishes"],
      ["--json", "print one JSON object per line: at, stream, line"],
      ...SERVER_OPTIONS,
    ],
    load: async () => (await import("../jobs/jobs.ts")).jobLogs,
  },
]

const QUEUE_SUBCOMMANDS: readonly CommandSpec[] = [
  {
    usage: "list",
    isDefault: true,
    description: "list queues with their depth and limits",
    options: [JSON_OPTION, ...SERVER_OPTIONS],
    load: async () => (await import("../jobs/queues.ts")).listQueues,
  },
  {
    usage: "set <queue>",
    description: "set limits of a queue; limits that are not named keep their value",
    options: [
      ["--concurrency <n>", "concurrent tasks and jobs, or none for no limit"],
      ["--rate <n/time>", "starts per period, such as 10/1m, or none for no limit"],
      ["--pause", "start nothing from this queue"],
      ["--resume", "start work from this queue again"],
      JSON_OPTION,
      ...SERVER_OPTIONS,
    ],
    examples: ["ork queues set mail --concurrency 4 --rate 10/1m"],
    load: async () => (await import("../jobs/queues.ts")).setQueue,
  },
]

export const JOB_COMMANDS: readonly CommandSpec[] = [
  {
    usage: "jobs",
    description: "list, submit, show, explain, cancel and retry single jobs of priority queues",
    subcommands: JOB_SUBCOMMANDS,
  },
  { usage: "queues", description: "list queues, and set their limits", subcommands: QUEUE_SUBCOMMANDS },
]
