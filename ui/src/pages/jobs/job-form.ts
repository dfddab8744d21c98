// Converts the form of a new job to a request, or reports the problem of each field.

import type { Json, NewJob } from "../../api/types.ts"
import { QUEUE_NAME } from "../../../../src/core/model/names.ts"
import { isUuid } from "../../../../src/core/model/ids.ts"

export interface JobTexts {
  name: string
  queue: string
  priority: string
  payload: string
  /** Ids, separated by lines or commas. */
  dependencies: string
  attempts: string
  backoff: string
  /** A shell command; empty if a handler of the queue runs the job. */
  command: string
}

export const NO_TEXTS: JobTexts = {
  name: "",
  queue: "",
  priority: "5",
  payload: "",
  dependencies: "",
  attempts: "3",
  backoff: "EXPONENTIAL",
  command: "",
}

export type JobProblems = { [Field in keyof JobTexts]?: string }

export const readJob = (texts: JobTexts): { job: NewJob; problems: JobProblems } => {
  const problems: JobProblems = {}
  if (texts.name.trim() === "") problems.name = "is required"
  if (!QUEUE_NAME.test(texts.queue)) problems.queue = "must be 1 to 64 letters, digits and underscores"
  const dependencies = texts.dependencies.split(/[\s,]+/).filter((id) => id !== "")
  const wrong = dependencies.find((id) => !isUuid(id.toLowerCase()))
  if (wrong !== undefined) problems.dependencies = `${wrong} is no id of a job`
  const attempts = Number(texts.attempts)
  if (!Number.isInteger(attempts) || attempts < 1 || attempts > 10) problems.attempts = "must be a whole number from 1 to 10"
  const payload = readPayload(texts.payload)
  if ("problem" in payload) problems.payload = payload.problem
  const job: NewJob = {
    name: texts.name.trim(),
    queue: texts.queue,
    priority: Number(texts.priority),
    dependencies,
    ...("value" in payload && { payload: payload.value }),
    retry_policy: { max_attempts: attempts, backoff_strategy: texts.backoff as "EXPONENTIAL" },
    ...(texts.command.trim() !== "" && { task: { command: texts.command } }),
  }
  return { job, problems }
}

const readPayload = (text: string): { value: Json } | { problem: string } | { absent: true } => {
  if (text.trim() === "") return { absent: true }
  try {
    return { value: JSON.parse(text) as Json }
  } catch (error) {
    return { problem: `is not JSON: ${(error as Error).message}` }
  }
}
