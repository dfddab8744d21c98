// Turns the body of a request into a new job, and compiles its task.

import type { z } from "zod"
import { FUNCTION_EXECUTOR, FUNCTION_NAME_HINT, isFunctionName } from "../../../core/model/function.ts"
import { uuidv7 } from "../../../core/model/ids.ts"
import { isWaitingExecutor } from "../../../core/model/waiting-on.ts"
import type { RetryPolicy } from "../../../core/model/workflow.ts"
import { policyProblems } from "../../../core/rules/access/policy.ts"
import { jobWorkflow } from "../../../core/rules/jobs/job-workflow.ts"
import { DEFAULT_JOB_RETRY } from "../../../core/rules/jobs/jobs.ts"
import { OPEN_POLICY } from "../../../core/settings/policy.ts"
import type { Json, JsonObject } from "../../../core/values/json.ts"
import { parseValue } from "../../../definition/parse.ts"
import { durationMs } from "../../../protocol/api/common.ts"
import type { newJob } from "../../../protocol/api/jobs.ts"
import type { NewJob } from "../../../store/contract/jobs.ts"
import { type Caller, may } from "../../auth/auth.ts"
import type { Api } from "../../http/ports.ts"
import { ApiError, invalid, invalidField } from "../../shared/errors.ts"

/** Returns the fields of a task that a job has itself, or that only make sense in a workflow. */
const WORKFLOW_FIELDS = (
  "queue priority retries max_retries retry input concurrency concurrency_key " +
  "depends_on dependencies run_when on_failure if continue_on_error skip_on foreach parallel tasks cache file artifacts artifacts_from"
).split(" ")

/** A task is compiled while the request waits, so it must be small. */
const MAX_TASK = 65_536

/**
 * Compiles the task of a job to a node, and adds the given task as `source`. Requires the same scope as deploying, because the task's
 * command runs on the workers like that of a workflow.
 */
const compileTask = (
  { config: { profiles = {}, policy = OPEN_POLICY } }: Api,
  caller: Caller,
  task: Record<string, unknown>,
  path: string,
): JsonObject => {
  if (!may(caller, "author", null)) {
    throw new ApiError("FORBIDDEN", "a job with a task of its own requires a key with the scope author")
  }
  if (JSON.stringify(task).length > MAX_TASK)
    throw invalidField(path, `is larger than ${MAX_TASK} bytes; deploy a workflow instead`)
  const foreign = WORKFLOW_FIELDS.filter((field) => task[field] !== undefined)
  if (foreign.length > 0) {
    throw invalid(foreign.map((field) => ({ path: `${path}.${field}`, message: "is not allowed in the task of a job" })))
  }
  if (isWaitingExecutor(String(task["executor"]))) {
    throw invalidField(`${path}.executor`, "is not allowed in a job: only tasks of a workflow can wait")
  }
  const parsed = parseValue({ name: "job", tasks: { job: task } }, { profiles })
  if (!parsed.ok) {
    throw invalid(parsed.problems.map((problem) => ({ ...problem, path: problem.path.replace(/^tasks\.job/, path) })))
  }
  const forbidden = policyProblems(policy, parsed.workflow)
  if (forbidden.length > 0) throw invalid(forbidden.map(({ message }) => ({ path, message })))
  const [node] = parsed.workflow.nodes
  return { ...(JSON.parse(JSON.stringify(node)) as JsonObject), source: task as JsonObject }
}

type NewJobBody = z.output<typeof newJob>

/** Returns the function that the job calls, if its task has no other field. A worker has registered it, so it needs no author. */
const calledFunction = ({ function: name, task }: NewJobBody): string | null => {
  if (name !== undefined) return name
  const isCall = task?.["executor"] === FUNCTION_EXECUTOR && Object.keys(task).length === 2
  return isCall && typeof task["function"] === "string" ? task["function"] : null
}

/** Returns the fields of a compiled node that the job has; null: a handler of the queue runs it. `path`: of the job in the body. */
const toTask = (api: Api, caller: Caller, body: NewJobBody, path: string): JsonObject | null => {
  const called = calledFunction(body)
  if (called === null) return body.task === undefined ? null : compileTask(api, caller, body.task, `${path}task`)
  if (!isFunctionName(called)) throw invalidField(`${path}task.function`, FUNCTION_NAME_HINT)
  const task = { executor: FUNCTION_EXECUTOR, function: called }
  const { name, queue } = body
  const workflow = jobWorkflow({ name, queue, task, retryPolicy: DEFAULT_JOB_RETRY, retry: null, timeoutMs: null })
  const forbidden = policyProblems(api.config.policy ?? OPEN_POLICY, workflow)
  if (forbidden.length > 0) throw invalid(forbidden.map(({ message }) => ({ path: `${path}task`, message })))
  return task
}

export const retryPolicyOf = (retry: NonNullable<NewJobBody["retry"]>): RetryPolicy => ({
  maxAttempts: retry.max_attempts,
  backoff: retry.backoff,
  baseDelayMs: durationMs(retry.base_delay),
  maxDelayMs: durationMs(retry.max_delay),
  jitter: retry.jitter,
})

const optionalMs = (value: string | number | undefined): number | null => (value === undefined ? null : durationMs(value))

export const toNewJob = (api: Api, caller: Caller, body: NewJobBody, path = ""): NewJob => ({
  id: body.id ?? uuidv7(api.clock.now(), api.random.hex128()),
  name: body.name,
  queue: body.queue,
  payload: (body.payload ?? null) as Json,
  priority: body.priority,
  dependencies: [...new Set(body.dependencies)],
  retryPolicy: body.retry_policy ?? DEFAULT_JOB_RETRY,
  retry: body.retry === undefined ? null : retryPolicyOf(body.retry),
  task: toTask(api, caller, body, path),
  concurrencyKey: body.concurrency_key ?? null,
  concurrencyLimit: body.concurrency_limit ?? 1,
  limits: body.limits,
  key: body.idempotency_key ?? null,
  runAt: body.run_at ?? null,
  delayMs: optionalMs(body.delay),
  timeoutMs: optionalMs(body.timeout),
  expiresMs: optionalMs(body.expires),
  group: body.group ?? null,
})
