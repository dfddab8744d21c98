// The commands that speak to a server, their options and their help.

import { Argument, type Command } from "commander"
import { type Add, example, json, many, params, withBoth, withHandlers, withServer } from "./options.ts"

const RUN = "an id, the beginning of one, or latest"

const addDeploy: Add = (program, context, done) => {
  const command = withServer(
    program
      .command("deploy <files...>")
      .description("deploy definitions (files, or folders of them) and the files they name; all of them, or with problems none")
      .addOption(json()),
  )
  example(command, "ork deploy etl.yaml", "ork deploy workflows/*.yaml --url https://ork.example.com").action(
    async (files: string[], options: import("./commands/deploy.ts").DeployOptions) => {
      const { deploy } = await import("./commands/deploy.ts")
      done(await deploy(context, files, options))
    },
  )
}

const addTrigger: Add = (program, context, done) => {
  const command = withServer(
    params(program.command("trigger <workflow>").description("start a run of a deployed workflow, and print its id"))
      .option("--priority <n>", "1 to 10, 10 first")
      .option("--idempotency-key <key>", "the same key again gives the run that it made before")
      .option("--logical-date <date>", "the date that the run is about")
      .option("--wait", "watch the run to its end as `ork run` does, with the same exit codes")
      .option("--cancel-on-interrupt", "with --wait: Ctrl-C cancels the run rather than leaving it alone")
      .option("--json", "as JSON; with --wait one object per event, last the run"),
  )
  example(command, "ork trigger etl --param date=2026-01-31 --wait").action(
    async (name: string, options: import("./commands/trigger.ts").TriggerOptions) => {
      const { trigger } = await import("./commands/trigger.ts")
      done(await trigger(context, name, options))
    },
  )
}

const addExplain: Add = (program, context, done) => {
  const command = withBoth(
    program
      .command("explain <run> [task]")
      .description(`tell why each task of a run waits, was skipped or failed; RUN is ${RUN}`)
      .addOption(json()),
  )
  example(command, "ork explain latest", "ork explain latest load").action(
    async (run: string, task: string | undefined, options: import("./commands/explain.ts").ExplainOptions) => {
      const { explain } = await import("./commands/explain.ts")
      done(await explain(context, run, task, options))
    },
  )
}

const addCancel: Add = (program, context, done) => {
  const command = withServer(program.command("cancel <run>").description(`cancel a run; RUN is ${RUN}`).addOption(json()))
  example(command, "ork cancel latest").action(async (run: string, options: import("./commands/steer.ts").SteerOptions) => {
    const { cancel } = await import("./commands/steer.ts")
    done(await cancel(context, run, options))
  })
}

const addRetry: Add = (program, context, done) => {
  const command = withServer(
    program
      .command("retry <run>")
      .description("run what failed, was skipped or cancelled again; successes are kept")
      .option("--from <task>", "this task and all below it, whatever their state")
      .option("--task <task>", "one instance of this task and all below it")
      .option("--index <n>", "which instance of --task")
      .option("--path <path>", "which instance of --task inside of groups, such as 1.2")
      .option("--plan", "only say what would run")
      .addOption(json()),
  )
  example(command, "ork retry latest", "ork retry latest --from load --plan", "ork retry latest --task load --index 3").action(
    async (run: string, options: import("./commands/steer.ts").RetryOptions) => {
      const { retry } = await import("./commands/steer.ts")
      done(await retry(context, run, options))
    },
  )
}

const ANSWERS = {
  approve: { about: "let a task that waits for approval succeed", approved: true },
  reject: { about: "fail a task that waits for approval", approved: false },
} as const

const addAnswers: Add = (program, context, done) => {
  for (const [name, { about, approved }] of Object.entries(ANSWERS)) {
    const command = withBoth(
      program
        .command(`${name} <run> <task>`)
        .description(`${about}; RUN is ${RUN}`)
        .option("--comment <text>", approved ? "kept with the answer" : "the error of the task")
        .option("--index <n>", "which instance of a fan-out")
        .option("--path <path>", "which instance inside of groups, such as 1.2")
        .addOption(json()),
    )
    example(command, `ork ${name} latest ship --comment "seen it"`).action(
      async (run: string, task: string, options: import("./commands/answer.ts").AnswerOptions) => {
        const { answer } = await import("./commands/answer.ts")
        done(await answer(context, run, task, approved, options))
      },
    )
  }
}

const PAUSES = {
  pause: { about: "start nothing new of a run, or let the schedule of a workflow rest", paused: true },
  resume: { about: "let a run, or the schedule of a workflow, go on", paused: false },
} as const

const addPauses: Add = (program, context, done) => {
  for (const [name, { about, paused }] of Object.entries(PAUSES)) {
    const command = withServer(
      program
        .command(name)
        .argument("<target>", `a run (${RUN}) or the name of a workflow`)
        .description(about)
        .addOption(json()),
    )
    example(command, `ork ${name} etl`, `ork ${name} latest`).action(
      async (target: string, options: import("./commands/steer.ts").SteerOptions) => {
        const { setPaused } = await import("./commands/steer.ts")
        done(await setPaused(context, target, paused, options))
      },
    )
  }
}

const addBackfill: Add = (program, context, done) => {
  const command = withServer(
    program
      .command("backfill <workflow>")
      .description("make one run for each tick of the schedule in a range; a tick that has one gets no other")
      .requiredOption("--from <date>", "the first instant, or day")
      .requiredOption("--to <date>", "the last instant, or day")
      .option("--max-active-runs <n>", "runs of this backfill at once")
      .option("--plan", "only list the ticks")
      .addOption(json()),
  )
  example(command, "ork backfill etl --from 2026-01-01 --to 2026-02-01 --plan").action(
    async (name: string, options: import("./commands/steer.ts").BackfillOptions) => {
      const { backfill } = await import("./commands/steer.ts")
      done(await backfill(context, name, options))
    },
  )
}

/** A command with others below it; without one of them it lists. */
const group = (program: Command, name: string, about: string): Command =>
  program.command(name).description(about).helpCommand(false)

const addJobs: Add = (program, context, done) => {
  const jobs = group(program, "jobs", "list, submit, show and cancel single jobs of priority queues")
  const load = () => import("./commands/jobs.ts")
  const list = withServer(
    jobs
      .command("list", { isDefault: true })
      .description("list jobs, newest first")
      .option("--queue <name>", "only of this queue")
      .option("--status <status>", "only PENDING, READY, RUNNING, COMPLETED, FAILED or BLOCKED ones")
      .option("--priority-min <n>", "of this priority and above")
      .option("--priority-max <n>", "of this priority and below")
      .option("--created-after <date>", "this instant and later")
      .option("--created-before <date>", "earlier than this instant")
      .option("--limit <n>", "at most so many", "20")
      .addOption(json()),
  )
  example(list, "ork jobs --queue mail --status failed").action(async (options: import("./commands/jobs.ts").JobsOptions) =>
    done(await (await load()).listJobs(context, options)),
  )
  const submit = withServer(
    jobs
      .command("submit [name]")
      .description("submit a job, or those of a file")
      .option("--queue <name>", "the queue that it goes to")
      .option("--payload <json>", "its input")
      .option("--priority <n>", "1 to 10, 10 first")
      .option("--after <id>", "a job that it waits for; may be repeated", many, [])
      .option("--command <command>", "a shell command that runs it; else a handler of the queue does")
      .option("--max-attempts <n>", "1 to 10")
      .option("--concurrency-key <key>", "jobs with the same key share slots")
      .option("--id <id>", "a UUID of your own")
      .option("--file <file>", "a YAML or JSON file with a job or a list of jobs, in the API's shape")
      .addOption(json()),
  )
  example(submit, "ork jobs submit report --queue mail --command 'echo hello'", "ork jobs submit --file jobs.yaml").action(
    async (name: string | undefined, options: import("./commands/jobs.ts").SubmitOptions) =>
      done(await (await load()).submitJob(context, name, options)),
  )
  withServer(jobs.command("show <job>").description("show a job and its result").addOption(json())).action(
    async (id: string, options: import("./commands/jobs.ts").JobOptions) =>
      done(await (await load()).showJob(context, id, options)),
  )
  withServer(
    jobs.command("cancel <job>").description("end a job as FAILED; what depends on it is BLOCKED").addOption(json()),
  ).action(async (id: string, options: import("./commands/jobs.ts").JobOptions) =>
    done(await (await load()).cancelJob(context, id, options)),
  )
  withServer(
    jobs
      .command("logs <job>")
      .description("print what the latest attempt of a job wrote")
      .option("-f, --follow", "go on until the job ends")
      .option("--json", "one JSON object per line: at, stream, line"),
  ).action(async (id: string, options: import("./commands/jobs.ts").JobLogsOptions) =>
    done(await (await load()).jobLogs(context, id, options)),
  )
}

const addQueues: Add = (program, context, done) => {
  const queues = group(program, "queues", "list queues, and set their limits")
  const load = () => import("./commands/queues.ts")
  withServer(
    queues.command("list", { isDefault: true }).description("list queues with their depth and limits").addOption(json()),
  ).action(async (options: import("./commands/queues.ts").QueuesOptions) =>
    done(await (await load()).listQueues(context, options)),
  )
  const set = withServer(
    queues
      .command("set <queue>")
      .description("set limits of a queue; what is not named stays")
      .option("--concurrency <n>", "jobs at once, or none for no limit")
      .option("--rate <n/time>", "starts in a time, such as 10/1m, or none for no limit")
      .option("--pause", "start nothing of it")
      .option("--resume", "let it go on")
      .addOption(json()),
  )
  example(set, "ork queues set mail --concurrency 4 --rate 10/1m").action(
    async (name: string, options: import("./commands/queues.ts").SetQueueOptions) =>
      done(await (await load()).setQueue(context, name, options)),
  )
}

const addSchedules: Add = (program, context, done) => {
  const command = withServer(
    program
      .command("schedules")
      .description("list schedules with their next five ticks")
      .option("--workflow <workflow>", "only of this workflow")
      .option("--limit <n>", "at most so many", "20")
      .addOption(json()),
  )
  example(command, "ork schedules --workflow etl").action(
    async (options: import("./commands/schedules.ts").SchedulesOptions) => {
      const { schedules } = await import("./commands/schedules.ts")
      done(await schedules(context, options))
    },
  )
}

const addWorkers: Add = (program, context, done) => {
  const command = withServer(program.command("workers").description("list the processes that run tasks").addOption(json()))
  example(command, "ork workers").action(async (options: import("./commands/workers.ts").WorkersOptions) => {
    const { workers } = await import("./commands/workers.ts")
    done(await workers(context, options))
  })
}

const addWorker: Add = (program, context, done) => {
  const command = withHandlers(
    program
      .command("worker")
      .description("run tasks here for servers elsewhere: take work from their queues, or listen for it"),
  )
    .option("--server <urls>", "the servers, tried in turn: http://a:4000,http://b:4000 (ORK_URL; else the one of this folder)")
    .option("--api-key <key>", "a key with the scope worker (ORK_API_KEY; else .ork/admin.key)")
    .option("--queue <names>", "queues to take work from, such as fast,slow (default)")
    .option("--label <names>", "labels that it has, such as gpu,eu; may be repeated", many, [])
    .option("--capacity <n>", "tasks at once (4 per core, at least 16)")
    .option("--name <name>", "its name, and that of its folder below .ork (the host's)")
    .option("--listen <port>", "take no work: listen for what servers with ORK_WORKERS send, at ORK_HOST")
  example(
    command,
    "ork worker --server http://ork:4000 --queue etl --label gpu --capacity 8",
    "ork worker --listen 8001",
  ).action(async (options: import("./commands/worker.ts").WorkerOptions) => {
    const { worker } = await import("./commands/worker.ts")
    done(await worker(context, options))
  })
}

const addKeys: Add = (program, context, done) => {
  const keys = group(program, "keys", "list, create and revoke API keys")
  const load = () => import("./commands/keys.ts")
  withServer(keys.command("list", { isDefault: true }).description("list keys").addOption(json())).action(
    async (options: import("./commands/keys.ts").KeysOptions) => done(await (await load()).listKeys(context, options)),
  )
  const create = withServer(
    keys
      .command("create <name>")
      .description("make a key, and print it this once")
      .option("--scope <scope>", "what it may do: read, trigger, worker or admin; may be repeated", many, [])
      .addOption(json()),
  )
  example(create, "ork keys create ci --scope trigger > ci.key").action(
    async (name: string, options: import("./commands/keys.ts").CreateKeyOptions) =>
      done(await (await load()).createKey(context, name, options)),
  )
  withServer(
    keys
      .command("revoke")
      .addArgument(new Argument("<key>", "the id that `ork keys` shows"))
      .description("remove a key")
      .addOption(json()),
  ).action(async (id: string, options: import("./commands/keys.ts").KeysOptions) =>
    done(await (await load()).revokeKey(context, id, options)),
  )
}

export const SERVER_COMMANDS: readonly Add[] = [
  addDeploy,
  addTrigger,
  addExplain,
  addCancel,
  addRetry,
  addAnswers,
  addPauses,
  addBackfill,
  addJobs,
  addQueues,
  addSchedules,
  addWorkers,
  addWorker,
  addKeys,
]
