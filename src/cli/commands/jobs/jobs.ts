// `ork jobs`: lists, submits, shows, explains, cancels and retries jobs, and prints their logs.

import { readFile } from "node:fs/promises"
import { resolve } from "node:path"
import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { unreadableFile } from "../../target/definition.ts"
import { InputError } from "../../terminal/errors.ts"
import { printListing } from "../../terminal/listing.ts"
import { localTimes, localZone, zonedText } from "../../terminal/times.ts"
import { parseChoice, parseLimit, parseWholeNumber } from "../../terminal/option-values.ts"
import { print, printJson, printResult, printSpans } from "../../terminal/output.ts"
import { readBytes } from "../../target/server-reader.ts"
import { firstItems } from "../../target/pages.ts"
import type { Span } from "../../terminal/style.ts"
import { printable } from "../../terminal/text.ts"
import { isObject, type Json } from "../../../core/values/json.ts"
import { omitUndefined } from "../../../core/values/omit-undefined.ts"
import { JOB_STATUSES } from "../../../core/rules/jobs/jobs.ts"
import type { Job, JobQuery, NewJob } from "../../../protocol/client/client.ts"

export interface JobsOptions extends ServerFlags {
  name?: string
  queue?: string
  status?: string
  priorityMin?: string
  priorityMax?: string
  createdAfter?: string
  createdBefore?: string
  limit: string
}

export const listJobs = async (context: Context, options: JobsOptions): Promise<number> => {
  const limit = parseLimit(options.limit)
  const filter: JobQuery = omitUndefined({
    name: options.name,
    queue: options.queue,
    status: parseStatuses(options.status),
    priority_min: parseWholeNumber("--priority-min", options.priorityMin, 0, 10),
    priority_max: parseWholeNumber("--priority-max", options.priorityMax, 0, 10),
    created_after: options.createdAfter,
    created_before: options.createdBefore,
  })
  const client = await connect(context, options)
  const times = localTimes(context, context.backends.clock.now())
  return printListing(context, options, {
    items: await firstItems((page) => client.listJobs({ ...filter, ...page }), limit),
    none: "no jobs",
    header: ["job", "status", "queue", "priority", "attempts", times.header("created"), "name"],
    row: (job) => [
      job.id,
      job.status,
      job.queue,
      String(job.priority),
      `${job.attempt_count}/${job.max_attempts}`,
      times.text(job.created_at),
      job.name,
    ],
  })
}

/** Parses one status, or several separated by commas. */
const parseStatuses = (text: string | undefined): string | undefined =>
  text
    ?.toUpperCase()
    .split(",")
    .map((status) => parseChoice("--status", status.trim(), JOB_STATUSES))
    .join(",")

// -- submit --------------------------------------------------------------------------------------------------------------------

export interface SubmitOptions extends ServerFlags {
  queue?: string
  payload?: string
  priority?: string
  after: string[]
  command?: string
  function?: string
  maxAttempts?: string
  concurrencyKey?: string
  concurrencyLimit?: string
  group?: string
  key?: string
  delay?: string
  runAt?: string
  timeout?: string
  expires?: string
  id?: string
  file?: string
}

export const submitJob = async (context: Context, name: string | undefined, options: SubmitOptions): Promise<number> => {
  if (options.file !== undefined && (name !== undefined || options.queue !== undefined)) {
    throw new InputError("--file defines the jobs completely; leave out NAME and the other options")
  }
  const jobs = options.file === undefined ? [jobFromOptions(name, options)] : await readJobs(context, options.file)
  const client = await connect(context, options)
  const created = jobs.length === 1 ? [(await client.submitJob(jobs[0]!)).job] : await client.submitJobs(jobs)
  const text = created.map((job) => `${job.id} ${job.status}`).join("\n")
  return printResult(context, options, options.file === undefined ? created[0] : created, text)
}

const jobFromOptions = (name: string | undefined, options: SubmitOptions): NewJob => {
  if (name === undefined || options.queue === undefined) {
    throw new InputError("a job needs a name and a queue: ork jobs submit NAME --queue QUEUE, or --file FILE")
  }
  const { queue, payload, after, command, concurrencyKey, group, key, delay, runAt, timeout, expires, id } = options
  const maxAttempts = parseWholeNumber("--max-attempts", options.maxAttempts, 1, 10)
  return omitUndefined({
    name,
    queue,
    payload: payload === undefined ? undefined : parsePayload(payload),
    priority: parseWholeNumber("--priority", options.priority, 1, 10),
    dependencies: after.length === 0 ? undefined : after,
    task: command === undefined ? undefined : { command },
    retry_policy: maxAttempts === undefined ? undefined : { max_attempts: maxAttempts },
    function: options.function,
    concurrency_key: concurrencyKey,
    concurrency_limit: parseWholeNumber("--concurrency-limit", options.concurrencyLimit, 1, 1_000_000),
    group,
    idempotency_key: key,
    delay,
    run_at: runAt,
    timeout,
    expires,
    id,
  })
}

const parsePayload = (text: string): Json => {
  try {
    return JSON.parse(text) as Json
  } catch {
    throw new InputError(`--payload: is not JSON; write a text with its quotes, such as --payload '"text"'`)
  }
}

/** Reads one job, `{ jobs: [ … ] }`, or a list of jobs. The server validates the jobs. */
const readJobs = async (context: Context, file: string): Promise<NewJob[]> => {
  const text = await readFile(resolve(context.cwd, file), "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new InputError(`--file: ${unreadableFile(file, error)}`)
  })
  const [{ readDocument }, { problemText }] = await Promise.all([
    import("../../../definition/text-document.ts"),
    import("../../../core/model/problems.ts"),
  ])
  const { document, problems } = readDocument(text, file.endsWith(".json") ? "json" : "yaml")
  if (problems.length > 0) throw new InputError(problems.map((problem) => problemText(problem, file)).join("\n"))
  const value: unknown = document?.value ?? null
  const wrapped: unknown = isObject(value) ? value["jobs"] : undefined
  const jobs: unknown[] = Array.isArray(wrapped) ? wrapped : Array.isArray(value) ? value : [value]
  if (jobs.length === 0 || !jobs.every(isObject)) {
    throw new InputError(`${file}: must be a job or a list of jobs, such as { name: x, queue: q }`)
  }
  return jobs as unknown as NewJob[]
}

// -- one job -------------------------------------------------------------------------------------------------------------------

export const showJob = async (context: Context, id: string, options: ServerFlags): Promise<number> => {
  const client = await connect(context, options)
  const [job, result] = await Promise.all([client.getJob(id), client.jobResult(id)])
  if (options.json === true) printJson(context, { ...job, result })
  else printSpans(context, jobLines(job, result.output as Json, localZone(context)))
  return 0
}

const jobLines = (job: Job, output: Json, zone: string): Span[][] => {
  const lines: Span[][] = [
    [[job.name, "bold"], " ", job.status],
    ["  job       ", job.id],
    ["  queue     ", job.queue, `, priority ${job.priority}`],
    ["  created   ", zonedText(job.created_at, zone)],
    ["  attempts  ", `${job.attempt_count} of at most ${job.max_attempts}`],
  ]
  if (job.dependencies.length > 0) lines.push(["  after     ", job.dependencies.join(", ")])
  if (job.idempotency_key !== null) lines.push(["  key       ", job.idempotency_key])
  if (job.group !== null) lines.push(["  group     ", job.group])
  if (job.concurrency_key !== null)
    lines.push(["  at once   ", `${job.concurrency_limit} with the concurrency key ${job.concurrency_key}`])
  for (const { key, cap } of job.limits) lines.push(["  at once   ", `${cap} with the limit ${key}`])
  if (job.timeout !== null) lines.push(["  timeout   ", job.timeout])
  if (job.expires !== null) lines.push(["  expires   ", `${job.expires} after it is available`])
  if (job.available_at !== null)
    lines.push([job.attempt_count === 0 ? "  starts at " : "  retry at  ", zonedText(job.available_at, zone)])
  if (job.progress !== null) lines.push(["  progress  ", progressText(job.progress)])
  if (job.finished_at !== null) lines.push(["  finished  ", zonedText(job.finished_at, zone)])
  if (job.payload !== null) lines.push(["  payload   ", JSON.stringify(job.payload)])
  if (output !== null) lines.push(["  output    ", JSON.stringify(output)])
  if (job.error !== null) lines.push(["  error     ", [printable(job.error), "red"]])
  return lines
}

const progressText = ({ fraction, details }: NonNullable<Job["progress"]>): string =>
  [fraction === null ? [] : `${Math.floor(fraction * 100)} %`, details == null ? [] : JSON.stringify(details)].flat().join(" ")

export const retryJob = async (context: Context, id: string, options: ServerFlags): Promise<number> => {
  const job = await (await connect(context, options)).retryJob(id)
  return printResult(context, options, job, `job ${job.id} is ${job.status}`)
}

export const explainJob = async (context: Context, id: string, options: ServerFlags): Promise<number> => {
  const items = await (await connect(context, options)).explainJob(id)
  return printResult(context, options, items, items.map(({ sentence }) => printable(sentence)).join("\n"))
}

export const cancelJob = async (context: Context, id: string, options: ServerFlags): Promise<number> => {
  const job = await (await connect(context, options)).cancelJob(id)
  const state = job.status === "FAILED" ? "is cancelled" : "is being cancelled"
  return printResult(context, options, job, `job ${job.id} ${state}`)
}

export interface JobLogsOptions extends ServerFlags {
  follow?: boolean
}

export const jobLogs = async (context: Context, id: string, options: JobLogsOptions): Promise<number> => {
  const client = await connect(context, options)
  const request = options.follow === true ? { follow: true } : {}
  if (options.json === true) {
    for await (const line of client.jobLogLines(id, request)) print(context, JSON.stringify(line))
  } else {
    for await (const bytes of readBytes(client.jobLog(id, request))) context.stdout.write(bytes)
  }
  return 0
}
