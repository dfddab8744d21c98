// Jobs: create, list, get, change, delete, cancel, retry, explain. The schemas are in protocol/api/jobs.ts, the rules in core/rules/.

import type { FastifyReply } from "fastify"
import type { z } from "zod"
import {
  job,
  jobBatch,
  jobChange,
  jobList,
  jobParams,
  jobQuery,
  jobResult,
  jobResultQuery,
  newJob,
  newJobQuery,
  newJobs,
} from "../../../protocol/api/jobs.ts"
import { durationMs, json } from "../../../protocol/api/common.ts"
import { explanations } from "../../../protocol/api/runs.ts"
import { isJobFinished, type JobStatus } from "../../../core/rules/jobs/jobs.ts"
import { ChangeWatcher, type WatchTarget } from "../../streams/change-watcher.ts"
import type { CreateJobsOptions, JobFilter, JobRejection, JobRow } from "../../../store/contract/jobs.ts"
import { pageOf, parseTimeCursor, timeCursor } from "../../http/cursors.ts"
import { conflict, invalidField, notFound } from "../../shared/errors.ts"
import type { Api } from "../../http/ports.ts"
import { describeAction } from "../../../store/contract/audit-scope.ts"
import { sendOutput } from "../../streams/output-stream.ts"
import { route, STREAMED } from "../../http/route.ts"
import { toJobEdit } from "./job-edit.ts"
import { toNewJob } from "./new-job.ts"
import { jobResultShape, jobShape } from "../../views/service-json.ts"

export const findJob = async (api: Api, id: string): Promise<JobRow> => {
  const found = await api.store.getJob(id)
  if (found === null) throw notFound(`there is no job ${id}`)
  return found
}

const rejectionError = (rejection: JobRejection, id = ""): Error => {
  switch (rejection.rejected) {
    case "exists":
      return conflict(`the job ${rejection.id} already exists`)
    case "missing_dependency":
      return invalidField("dependencies", `job ${rejection.id} depends on ${rejection.dependency}, which does not exist`)
    case "cycle":
      return conflict(`the dependencies form a cycle: ${[...rejection.path, rejection.path[0]].join(" → ")}`)
    case "terminal":
      return conflict(`the job has ended as ${rejection.status} and cannot be changed`)
    case "has_dependents":
      return conflict("other jobs depend on this one; delete them first")
    case "not_ended":
      return conflict("the job has not ended")
    case "not_pending":
      return conflict("dependencies can be changed only while the job is PENDING")
    case "key_exists":
      return conflict(`the job ${rejection.id} has the same name and key`)
    case "not_failed":
      return conflict(`the job is ${rejection.status}; only a FAILED job can be retried`)
    case "not_found":
      return notFound(`there is no job ${id}`)
    default:
      return rejection satisfies never
  }
}

/** Returns the job, or throws the error of its rejection. */
const accepted = <T extends JobRow | JobRow[]>(result: T | JobRejection, id?: string): T => {
  if ("rejected" in result) throw rejectionError(result, id)
  return result
}

const onConflictOf = ({ on_conflict: onConflict }: z.output<typeof newJobQuery>): CreateJobsOptions =>
  onConflict === undefined ? {} : { onConflict }

const toFilter = (query: z.output<typeof jobQuery>): JobFilter => ({
  ...(query.name !== undefined && { name: query.name }),
  ...(query.queue !== undefined && { queue: query.queue }),
  ...(query.status !== undefined && { status: query.status.split(",") as JobStatus[] }),
  ...(query.priority_min !== undefined && { priorityMin: query.priority_min }),
  ...(query.priority_max !== undefined && { priorityMax: query.priority_max }),
  ...(query.created_after !== undefined && { createdAfter: query.created_after }),
  ...(query.created_before !== undefined && { createdBefore: query.created_before }),
})

/**
 * Returns the job when it has finished, or as it is after the time or when the client has disconnected. It reads the job when it may have
 * changed: the server's event feed, which all requests share, reports that.
 */
const finishedJob = async (api: Api, id: string, waitMs: number, reply: FastifyReply): Promise<JobRow> => {
  const found = await findJob(api, id)
  if (waitMs === 0 || isJobFinished(found.status)) return found
  const stop = new AbortController()
  const cancelTimer = api.clock.after(waitMs, () => stop.abort())
  reply.raw.once("close", () => stop.abort())
  const signal = AbortSignal.any([stop.signal, api.streams.closing])
  try {
    const matches: WatchTarget["matches"] = (event) => event.type === "job" && event.jobId === id && isJobFinished(event.status)
    const watcher = await ChangeWatcher.open(api.feed, { runId: null, matches }, signal)
    for (;;) {
      const current = await findJob(api, id)
      if (isJobFinished(current.status) || signal.aborted) return current
      await watcher.nextChange()
    }
  } finally {
    cancelTimer()
    stop.abort()
  }
}

export const jobRoutes = [
  route({
    method: "POST",
    path: "/jobs",
    summary: "Create a job",
    scope: "trigger",
    concerns: "server",
    query: newJobQuery,
    body: { schema: newJob, required: true },
    responses: {
      200: { description: "The job that has the idempotency key", schema: job },
      201: { description: "The new job", schema: job },
    },
    errors: [409],
    audit: "job.create",
    async handle({ query, body, caller, api }) {
      describeAction({ target: (jobs: JobRow[]) => jobs[0]!.id })
      const [row] = accepted(await api.jobs.create([toNewJob(api, caller, body)], onConflictOf(query)))
      const { id, created } = row!
      const reply = { status: created ? 201 : 200, body: jobShape(row!), headers: { location: `/api/v1/jobs/${id}` } }
      return created ? reply : { ...reply, audit: false }
    },
  }),
  route({
    method: "POST",
    path: "/jobs/batch",
    summary: "Create up to 1,000 jobs, all or none; they may depend on each other",
    scope: "trigger",
    concerns: "server",
    query: newJobQuery,
    body: { schema: newJobs, required: true },
    responses: {
      200: { description: "The jobs in the given order, which all existed: by their idempotency keys", schema: jobBatch },
      201: { description: "The jobs in the given order, of which some are new", schema: jobBatch },
    },
    errors: [409],
    audit: "job.batch",
    async handle({ query, body, caller, api }) {
      const jobs = body.jobs.map((each, i) => toNewJob(api, caller, each, `jobs.${i}.`))
      const ids = new Set(jobs.map(({ id }) => id))
      if (ids.size < jobs.length) throw invalidField("jobs", "two jobs have the same id")
      describeAction({ target: (rows: JobRow[]) => rows[0]!.id, details: `${jobs.length} jobs` })
      const rows = accepted(await api.jobs.create(jobs, onConflictOf(query)))
      const reply = { items: rows.map(jobShape) }
      return rows.some(({ created }) => created) ? { status: 201, body: reply } : { status: 200, body: reply, audit: false }
    },
  }),
  route({
    method: "GET",
    path: "/jobs",
    summary: "List jobs, newest first, then by id",
    scope: "read",
    concerns: "server",
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
    summary: "Get a job",
    scope: "read",
    concerns: "server",
    params: jobParams,
    responses: { 200: { description: "The job", schema: job } },
    async handle({ params, api }) {
      return { status: 200, body: jobShape(await findJob(api, params.job_id)) }
    },
  }),
  route({
    method: "PUT",
    path: "/jobs/{job_id}",
    summary: "Change a job that has not ended; fields that cannot be changed may be sent with their present values",
    scope: "trigger",
    concerns: "server",
    params: jobParams,
    body: { schema: jobChange, required: true },
    responses: { 200: { description: "The changed job", schema: job } },
    errors: [409],
    audit: "job.update",
    async handle({ params, body, api }) {
      const change = toJobEdit(await findJob(api, params.job_id), body)
      const changed = accepted(await api.jobs.update(params.job_id, change), params.job_id)
      return { status: 200, body: jobShape(changed) }
    },
  }),
  route({
    method: "DELETE",
    path: "/jobs/{job_id}",
    summary: "Delete a job that no other job depends on; a running job is killed",
    scope: "trigger",
    concerns: "server",
    params: jobParams,
    responses: { 204: { description: "Deleted" } },
    errors: [409],
    audit: "job.delete",
    async handle({ params, api }) {
      const rejection = await api.jobs.delete(params.job_id)
      if (rejection !== null) throw rejectionError(rejection, params.job_id)
      return { status: 204 }
    },
  }),
  route({
    method: "POST",
    path: "/jobs/{job_id}/cancel",
    summary: "Cancel a job: it becomes FAILED with the error `cancelled`, and jobs that depend on it become BLOCKED",
    scope: "trigger",
    concerns: "server",
    params: jobParams,
    responses: { 202: { description: "The job; a running job ends when its process has exited", schema: job } },
    errors: [409],
    audit: "job.cancel",
    async handle({ params, api }) {
      const cancelled = accepted(await api.jobs.cancel(params.job_id), params.job_id)
      return { status: 202, body: jobShape(cancelled) }
    },
  }),
  route({
    method: "POST",
    path: "/jobs/{job_id}/retry",
    summary: "Run a FAILED job again, with all of its attempts; jobs that it has blocked stay BLOCKED",
    scope: "trigger",
    concerns: "server",
    params: jobParams,
    responses: { 202: { description: "The job", schema: job } },
    errors: [409],
    audit: "job.retry",
    async handle({ params, api }) {
      return { status: 202, body: jobShape(accepted(await api.jobs.retry(params.job_id), params.job_id)) }
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{job_id}/explain",
    summary: "Explain the status of a job: what it waits for, or why it failed",
    scope: "read",
    concerns: "server",
    params: jobParams,
    requires: "explainJob",
    responses: { 200: { description: "One sentence about the job", schema: explanations } },
    async handle({ params, api }) {
      const found = await findJob(api, params.job_id)
      return { status: 200, body: { items: [await api.parts.explainJob!(found)] } }
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{job_id}/result",
    summary: "Get the result of a job: its status, output and error; with `wait`, once the job has finished",
    scope: "read",
    concerns: "server",
    params: jobParams,
    query: jobResultQuery,
    responses: { 200: { description: "The result; output and error are null while the job has none", schema: jobResult } },
    async handle({ params, query, reply, api }) {
      const waitMs = query.wait === undefined ? 0 : durationMs(query.wait)
      return { status: 200, body: jobResultShape(await finishedJob(api, params.job_id, waitMs, reply)) }
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{job_id}/output",
    summary: "Get the output of a job, whatever its size",
    scope: "read",
    concerns: "server",
    params: jobParams,
    responses: { 200: { description: "The output", schema: json } },
    async handle({ params, request, reply, api }) {
      const { id, output } = await findJob(api, params.job_id)
      if (output === null) throw notFound(`job ${id} has no output`)
      await sendOutput({ api, request, reply }, output)
      return STREAMED
    },
  }),
]
