// Single jobs from priority queues. What a request may say is in protocol/api/jobs.ts, what follows from it in core/rules/jobs.ts.

import { isWaitingExecutor } from "../../core/model/waiting-on.ts"
import type { z } from "zod"
import { uuidv7 } from "../../core/model/ids.ts"
import type { Json, JsonObject } from "../../core/model/json.ts"
import { job, jobBatch, jobChange, jobList, jobParams, jobQuery, jobResult, newJob, newJobs } from "../../protocol/api/jobs.ts"
import { parseValue } from "../../definition/parse.ts"
import type { JobChange, JobFilter, JobRejection, JobRow, NewJob } from "../../store/contract/jobs.ts"
import { type Caller, mayCall } from "../auth/auth.ts"
import { pageOf, parseTimeCursor, timeCursor } from "../http/cursors.ts"
import { ApiError, conflict, invalid, invalidField, notFound } from "../http/errors.ts"
import type { Api } from "../http/ports.ts"
import { route } from "../http/route.ts"
import { jobResultShape, jobShape } from "../views/shapes.ts"

const TAG = "jobs"

export const findJob = async (api: Api, id: string): Promise<JobRow> => {
  const found = await api.store.getJob(id)
  if (found === null) throw notFound(`there is no job ${id}`)
  return found
}

const refusal = (refused: JobRejection, id = ""): Error => {
  switch (refused.rejected) {
    case "exists":
      return conflict(`there is a job ${refused.id} already`)
    case "missing_dependency":
      return invalidField("dependencies", `job ${refused.id} depends on ${refused.dependency}, which does not exist`)
    case "cycle":
      return conflict(`the dependencies form a circle: ${[...refused.path, refused.path[0]].join(" → ")}`)
    case "terminal":
      return conflict(`the job has ended as ${refused.status} and cannot be changed`)
    case "has_dependents":
      return conflict("other jobs depend on this one; delete them first")
    case "not_pending":
      return conflict("dependencies can be changed only while the job is PENDING")
    case "not_found":
      return notFound(`there is no job ${id}`)
    default:
      return refused satisfies never
  }
}

const isRefusal = (made: object): made is JobRejection => "rejected" in made

/** What belongs to the job itself, or to a graph that it is not part of. */
const NOT_OF_A_JOB = (
  "queue priority retries max_retries retry input concurrency concurrency_key " +
  "depends_on dependencies run_when on_failure if foreach parallel tasks cache file"
).split(" ")

/**
 * The task as a compiled node would have it, with what was given as `source`. Its command runs on the workers as one of a
 * workflow would: that takes the same scope as deploying.
 */
const compileTask = (
  { config: { profiles = {} } }: Api,
  caller: Caller,
  task: Record<string, unknown>,
  path: string,
): JsonObject => {
  if (!mayCall(caller, "admin"))
    throw new ApiError("FORBIDDEN", "a job with a task of its own needs a key with the scope admin")
  const foreign = NOT_OF_A_JOB.filter((field) => task[field] !== undefined)
  if (foreign.length > 0) {
    throw invalid(foreign.map((field) => ({ path: `${path}.${field}`, message: "is not for the task of a job" })))
  }
  if (isWaitingExecutor(String(task["executor"])))
    throw invalidField(`${path}.executor`, "is not for a job: what waits is a task of a workflow")
  const parsed = parseValue({ name: "job", tasks: { job: task } }, { profiles })
  if (!parsed.ok) {
    throw invalid(parsed.problems.map((problem) => ({ ...problem, path: problem.path.replace(/^tasks\.job/, path) })))
  }
  const [node] = parsed.workflow.nodes
  return { ...(JSON.parse(JSON.stringify(node)) as JsonObject), source: task as JsonObject }
}

const toNew = (api: Api, caller: Caller, body: z.output<typeof newJob>, path: string): NewJob => ({
  id: body.id ?? uuidv7(api.clock.now(), api.random.hex128()),
  name: body.name,
  queue: body.queue,
  payload: (body.payload ?? null) as Json,
  priority: body.priority,
  dependencies: [...new Set(body.dependencies)],
  retryPolicy: body.retry_policy,
  task: body.task === undefined ? null : compileTask(api, caller, body.task, path),
  concurrencyKey: body.concurrency_key ?? null,
})

const create = async (api: Api, jobs: NewJob[]): Promise<JobRow[]> => {
  const made = await api.jobs.create(jobs)
  if (!Array.isArray(made)) throw refusal(made)
  return made
}

const toChange = (body: z.output<typeof jobChange>): JobChange => ({
  ...(body.name !== undefined && { name: body.name }),
  ...(body.queue !== undefined && { queue: body.queue }),
  ...(body.payload !== undefined && { payload: body.payload as Json }),
  ...(body.priority !== undefined && { priority: body.priority }),
  ...(body.dependencies !== undefined && { dependencies: [...new Set(body.dependencies)] }),
  ...(body.retry_policy !== undefined && { retryPolicy: body.retry_policy }),
})

const toFilter = (query: z.output<typeof jobQuery>): JobFilter => ({
  ...(query.queue !== undefined && { queue: query.queue }),
  ...(query.status !== undefined && { status: query.status }),
  ...(query.priority_min !== undefined && { priorityMin: query.priority_min }),
  ...(query.priority_max !== undefined && { priorityMax: query.priority_max }),
  ...(query.created_after !== undefined && { createdAfter: query.created_after }),
  ...(query.created_before !== undefined && { createdBefore: query.created_before }),
})

export const jobRoutes = [
  route({
    method: "POST",
    path: "/jobs",
    tag: TAG,
    summary: "Submits a job",
    scope: "trigger",
    body: { schema: newJob, required: true },
    responses: { 201: { description: "The new job", schema: job } },
    errors: [409],
    audit: "job.create",
    async handle({ body, caller, api }) {
      const [made] = await create(api, [toNew(api, caller, body, "task")])
      return { status: 201, body: jobShape(made!), headers: { location: `/api/v1/jobs/${made!.id}` }, target: made!.id }
    },
  }),
  route({
    method: "POST",
    path: "/jobs/batch",
    tag: TAG,
    summary: "Submits up to 1,000 jobs, all or none; they may depend on each other",
    scope: "trigger",
    body: { schema: newJobs, required: true },
    responses: { 201: { description: "The new jobs in the order given", schema: jobBatch } },
    errors: [409],
    audit: "job.batch",
    async handle({ body, caller, api }) {
      const jobs = body.jobs.map((each, i) => toNew(api, caller, each, `jobs.${i}.task`))
      const ids = new Set(jobs.map((each) => each.id))
      if (ids.size < jobs.length) throw invalidField("jobs", "two jobs have the same id")
      const made = await create(api, jobs)
      return { status: 201, body: { items: made.map(jobShape) }, target: made[0]!.id, details: `${made.length} jobs` }
    },
  }),
  route({
    method: "GET",
    path: "/jobs",
    tag: TAG,
    summary: "Jobs, newest first, then by id",
    scope: "read",
    query: jobQuery,
    responses: { 200: { description: "A page of jobs", schema: jobList } },
    async handle({ query, api }) {
      const { limit, cursor } = query
      const after = cursor === undefined ? {} : { after: parseTimeCursor(cursor) }
      const rows = await api.store.searchJobs({ filter: toFilter(query), limit: limit + 1, ...after })
      return { status: 200, body: pageOf(rows, limit, jobShape, timeCursor) }
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{job_id}",
    tag: TAG,
    summary: "A job",
    scope: "read",
    params: jobParams,
    responses: { 200: { description: "The job", schema: job } },
    async handle({ params, api }) {
      return { status: 200, body: jobShape(await findJob(api, params.job_id)) }
    },
  }),
  route({
    method: "PUT",
    path: "/jobs/{job_id}",
    tag: TAG,
    summary: "Changes a job that has not ended; its id, status, times and attempts cannot be changed",
    scope: "trigger",
    params: jobParams,
    body: { schema: jobChange, required: true },
    responses: { 200: { description: "The job as it is now", schema: job } },
    errors: [409],
    audit: "job.update",
    async handle({ params, body, api }) {
      const made = await api.jobs.update(params.job_id, toChange(body))
      if (isRefusal(made)) throw refusal(made, params.job_id)
      return { status: 200, body: jobShape(made) }
    },
  }),
  route({
    method: "DELETE",
    path: "/jobs/{job_id}",
    tag: TAG,
    summary: "Deletes a job that no other depends on; a running one is killed",
    scope: "trigger",
    params: jobParams,
    responses: { 204: { description: "Deleted" } },
    errors: [409],
    audit: "job.delete",
    async handle({ params, api }) {
      const refused = await api.jobs.delete(params.job_id)
      if (refused !== null) throw refusal(refused, params.job_id)
      return { status: 204 }
    },
  }),
  route({
    method: "POST",
    path: "/jobs/{job_id}/cancel",
    tag: TAG,
    summary: "Ends a job as FAILED with the error `cancelled`; what depends on it is BLOCKED",
    scope: "trigger",
    params: jobParams,
    responses: { 202: { description: "The job; one that runs ends when its process is dead", schema: job } },
    errors: [409],
    audit: "job.cancel",
    async handle({ params, api }) {
      const made = await api.jobs.cancel(params.job_id)
      if (isRefusal(made)) throw refusal(made, params.job_id)
      return { status: 202, body: jobShape(made) }
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{job_id}/result",
    tag: TAG,
    summary: "How a job ended, and its output",
    scope: "read",
    params: jobParams,
    responses: { 200: { description: "The result; output and error are null while there is none", schema: jobResult } },
    async handle({ params, api }) {
      return { status: 200, body: jobResultShape(await findJob(api, params.job_id)) }
    },
  }),
]
