// Every API call that changes something.

import { json } from "./http.ts"
import type {
  CreatedKey,
  Job,
  NewJob,
  NewKey,
  NewRun,
  Queue,
  QueueSettings,
  RetryPlan,
  RetryStart,
  Run,
  Task,
  Workflow,
} from "./types.ts"

const part = encodeURIComponent

/** One instance of a task: `path` is empty without fan-out. */
export interface TaskRef {
  runId: string
  name: string
  path: string
}

const taskUrl = ({ runId, name }: TaskRef, verb: string): string => `/runs/${runId}/tasks/${part(name)}/${verb}`
const instance = ({ path }: TaskRef) => (path === "" ? {} : { path })

export const calls = {
  signIn: (key: string): Promise<void> => json("/ui/sign-in", { method: "POST", body: { key } }),
  signOut: (): Promise<void> => json("/ui/sign-out", { method: "POST" }),

  trigger: (workflow: string, run: NewRun): Promise<Run> =>
    json(`/workflows/${part(workflow)}/runs`, { method: "POST", body: run }),
  pauseWorkflow: (workflow: string, paused: boolean): Promise<Workflow> =>
    json(`/workflows/${part(workflow)}/${paused ? "pause" : "resume"}`, { method: "POST" }),
  removeWorkflow: (workflow: string): Promise<void> => json(`/workflows/${part(workflow)}`, { method: "DELETE" }),

  cancelRun: (id: string): Promise<Run> => json(`/runs/${id}/cancel`, { method: "POST" }),
  pauseRun: (id: string, paused: boolean): Promise<Run> =>
    json(`/runs/${id}/${paused ? "pause" : "resume"}`, { method: "POST" }),
  removeRun: (id: string): Promise<void> => json(`/runs/${id}`, { method: "DELETE" }),
  retryRun: (id: string, start: RetryStart = {}): Promise<Run> => json(`/runs/${id}/retry`, { method: "POST", body: start }),
  planRetry: (id: string, start: RetryStart): Promise<RetryPlan> =>
    json(`/runs/${id}/retry`, { method: "POST", body: { plan: true, ...start } }),

  planRetryTask: (at: TaskRef): Promise<RetryPlan> =>
    json(taskUrl(at, "retry"), { method: "POST", query: instance(at), body: { plan: true } }),
  retryTask: (at: TaskRef): Promise<Run> => json(taskUrl(at, "retry"), { method: "POST", query: instance(at) }),
  markTask: (at: TaskRef, status: "success" | "failed", reason: string): Promise<Task> =>
    json(taskUrl(at, "mark"), { method: "POST", query: instance(at), body: { status, reason } }),
  answerTask: (at: TaskRef, verb: "approve" | "reject", comment: string): Promise<unknown> =>
    json(taskUrl(at, verb), { method: "POST", body: { ...instance(at), ...(comment !== "" && { comment }) } }),

  submitJob: (job: NewJob): Promise<Job> => json("/jobs", { method: "POST", body: job }),
  retryJob: (id: string): Promise<Job> => json(`/jobs/${id}/retry`, { method: "POST" }),
  cancelJob: (id: string): Promise<Job> => json(`/jobs/${id}/cancel`, { method: "POST" }),
  removeJob: (id: string): Promise<void> => json(`/jobs/${id}`, { method: "DELETE" }),
  setQueue: (name: string, settings: QueueSettings): Promise<Queue> =>
    json(`/queues/${part(name)}`, { method: "PUT", body: settings }),

  createKey: (body: NewKey): Promise<CreatedKey> => json("/keys", { method: "POST", body }),
  removeKey: (id: string): Promise<void> => json(`/keys/${id}`, { method: "DELETE" }),
}
