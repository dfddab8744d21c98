// All reads, as options of TanStack Query: the cache key and the request. The live
// stream patches these keys (live/apply.ts), so data stays fresh without further requests.

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query"
import { previewOf, PREVIEW_BYTES } from "./preview.ts"
import { ApiProblem, json, open, type Query, urlOf } from "./http.ts"
import type {
  Artifacts,
  AuditEntry,
  Change,
  Explanation,
  Grid,
  InstanceSummary,
  Job,
  JobResult,
  Key,
  Page,
  Queue,
  Run,
  RunGraph,
  Schedule,
  Session,
  SignInMethods,
  Stats,
  Step,
  Task,
  Worker,
  Workflow,
  WorkflowSummary,
  WorkflowVersion,
} from "./types.ts"

const part = encodeURIComponent

/** Retries requests without a response; rejected requests are not repeated. */
export const retryQuery = (failures: number, error: unknown): boolean =>
  !(error instanceof ApiProblem && error.status > 0 && error.status < 500) && failures < 2

const ASK_AGAIN_MS = 3000

/** Returns whether the server did not respond, or could not. */
const isUnavailable = (error: unknown): boolean => error instanceof ApiProblem && (error.status === 0 || error.status >= 500)

const pages = <Item>(kind: string, path: string, query: Query) =>
  infiniteQueryOptions({
    queryKey: [kind, query] as const,
    queryFn: ({ pageParam, signal }) => json<Page<Item>>(path, { query: { ...query, cursor: pageParam }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (last: Page<Item>) => last.next_cursor,
    placeholderData: keepPreviousData,
  })

/** Reads all pages of a short list. */
const all = async <Item>(path: string, query: Query, signal: AbortSignal): Promise<Item[]> => {
  const items: Item[] = []
  let cursor: string | null = null
  do {
    const page: Page<Item> = await json(path, { query: { limit: 100, ...query, cursor }, signal })
    items.push(...page.items)
    cursor = page.next_cursor
  } while (cursor !== null && items.length < 2000)
  return items
}

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => json<Session>("/session", { signal }),
  staleTime: 60_000,
  retry: retryQuery,
  // Without a session there is no stream that would report that the server is back.
  refetchInterval: ({ state: { error } }) => (isUnavailable(error) ? ASK_AGAIN_MS : false),
})

/** Reads the session with its scopes for one workflow. */
export const workflowSessionQuery = (workflow: string) =>
  queryOptions({
    queryKey: ["session", workflow],
    queryFn: ({ signal }) => json<Session>("/session", { query: { workflow }, signal }),
    staleTime: 60_000,
  })

/** The route is outside of /api/v1 and needs no session. */
export const signInMethodsQuery = queryOptions({
  queryKey: ["sign-in methods"],
  queryFn: async ({ signal }) => (await (await fetch("/ui/sign-in/methods", { signal })).json()) as SignInMethods,
  staleTime: 60_000,
})

export const workflowsQuery = (filter: Query) => pages<WorkflowSummary>("workflows", "/workflows", { limit: 50, ...filter })

export const workflowQuery = (name: string) =>
  queryOptions({
    queryKey: ["workflow", name],
    queryFn: ({ signal }) => json<Workflow>(`/workflows/${part(name)}`, { signal }),
  })

export const versionsQuery = (name: string) =>
  queryOptions({
    queryKey: ["versions", name],
    queryFn: ({ signal }) => all<WorkflowVersion>(`/workflows/${part(name)}/versions`, {}, signal),
  })

export const runsQuery = (filter: Query) => pages<Run>("runs", "/runs", { limit: 50, ...filter })

export const runQuery = (id: string) =>
  queryOptions({ queryKey: ["run", id], queryFn: ({ signal }) => json<Run>(`/runs/${part(id)}`, { signal }) })

/** Reads the graph of a run for run/run-model.ts, which updates the data itself. */
export const runGraph = (id: string, signal: AbortSignal): Promise<RunGraph> => json(`/runs/${part(id)}/graph`, { signal })

export const instancesPage = (id: string, cursor: string | null, signal: AbortSignal): Promise<Page<InstanceSummary>> =>
  json(`/runs/${part(id)}/instances`, { query: { limit: 2000, cursor }, signal })

/** Reads the steps of a durable function; none for another run. */
export const stepsQuery = (id: string) =>
  queryOptions({
    queryKey: ["steps", id],
    queryFn: ({ signal }) => json<{ items: Step[] }>(`/runs/${id}/steps`, { signal }),
  })

/** Reads the graph of a run without updates, for comparison. */
export const graphQuery = (id: string) =>
  queryOptions({ queryKey: ["graph", id], queryFn: ({ signal }) => runGraph(id, signal) })

/** Reads the last runs of a workflow, including this one. */
export const gridQuery = (workflow: string, run: string) =>
  queryOptions({
    queryKey: ["grid", workflow, run],
    queryFn: ({ signal }) => json<Grid>(`/workflows/${part(workflow)}/grid`, { query: { run }, signal }),
    refetchInterval: 10_000,
  })

/** Reads an explanation. `stateKey` is the task's state; another state has another explanation. */
export const explainQuery = (id: string, task?: string, stateKey = "") =>
  queryOptions({
    queryKey: ["explain", id, task ?? null, stateKey],
    queryFn: ({ signal }) => json<{ items: Explanation[] }>(`/runs/${id}/explain`, { query: { task }, signal }),
  })

const READY_MS = 15_000

export const readyQuery = queryOptions({
  queryKey: ["ready"],
  queryFn: ({ signal }) => json<{ status: string }>("/ready", { signal }),
  refetchInterval: READY_MS,
  retry: false,
})

export const explainJobQuery = (id: string, stateKey: string) =>
  queryOptions({
    queryKey: ["explain job", id, stateKey],
    queryFn: ({ signal }) => json<{ items: Explanation[] }>(`/jobs/${id}/explain`, { signal }),
  })

/** Reads an instance. `stateKey` is its state; a change of state causes a new read. */
export const taskQuery = (runId: string, name: string, path: string, stateKey = "") =>
  queryOptions({
    queryKey: ["task", runId, name, path, stateKey],
    queryFn: ({ signal }) => json<Task>(`/runs/${runId}/tasks/${part(name)}`, { query: path === "" ? {} : { path }, signal }),
  })

type TaskAttempt = Pick<Task, "run_id" | "name" | "path" | "attempt">

const artifactsPath = ({ run_id: run, name }: TaskAttempt): string => `/runs/${run}/tasks/${part(name)}/artifacts`
const attemptOf = ({ path, attempt }: TaskAttempt): Query => ({ attempt, ...(path !== "" && { path }) })

/** Returns the address of the content of an artifact, which the server sends as an attachment. */
export const artifactUrl = (task: TaskAttempt, file: string): string =>
  urlOf(`${artifactsPath(task)}/content`, { ...attemptOf(task), file })

export const artifactsQuery = (task: TaskAttempt) =>
  queryOptions({
    queryKey: ["artifacts", task.run_id, task.name, task.path, task.attempt],
    queryFn: ({ signal }) => json<Artifacts>(artifactsPath(task), { query: attemptOf(task), signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })

/** Reads the preview of an artifact. `complete`: it contains the whole file. */
export const artifactPreviewQuery = (task: TaskAttempt, { path: file, bytes }: Artifacts["items"][number]) =>
  queryOptions({
    queryKey: ["artifact", task.run_id, task.name, task.path, task.attempt, file],
    queryFn: async ({ signal }) => {
      const query = { ...attemptOf(task), file, length: PREVIEW_BYTES }
      const content = await (await open(`${artifactsPath(task)}/content`, { query, signal })).arrayBuffer()
      const complete = bytes <= PREVIEW_BYTES
      return { preview: previewOf(file, new Uint8Array(content), complete), complete }
    },
    staleTime: Number.POSITIVE_INFINITY,
  })

/** Bytes at the end of a log that contain its last lines. */
const TAIL_BYTES = 2000

/** Reads the end of the log of a finished attempt. */
export const logTailQuery = (runId: string, name: string, path: string, attempt: number) =>
  queryOptions({
    queryKey: ["log tail", runId, name, path, attempt],
    queryFn: async ({ signal }) => {
      const query = { attempt, offset: -TAIL_BYTES, ...(path !== "" && { path }) }
      return (await open(`/runs/${runId}/tasks/${part(name)}/logs`, { query, signal })).text()
    },
  })

export const jobsQuery = (filter: Query) => pages<Job>("jobs", "/jobs", { limit: 50, ...filter })

export const jobQuery = (id: string) =>
  queryOptions({ queryKey: ["job", id], queryFn: ({ signal }) => json<Job>(`/jobs/${id}`, { signal }) })

export const jobResultQuery = (id: string) =>
  queryOptions({ queryKey: ["job-result", id], queryFn: ({ signal }) => json<JobResult>(`/jobs/${id}/result`, { signal }) })

export const queuesQuery = queryOptions({
  queryKey: ["queues"],
  queryFn: async ({ signal }) => (await json<{ items: Queue[] }>("/queues", { signal })).items,
  refetchInterval: 5000,
})

export const schedulesQuery = (filter: { workflow?: string; ticks?: number } = {}) =>
  queryOptions({
    queryKey: ["schedules", filter],
    queryFn: ({ signal }) => all<Schedule>("/schedules", { ...filter, limit: 20 }, signal),
  })

export const workersQuery = queryOptions({
  queryKey: ["workers"],
  queryFn: async ({ signal }) => (await json<{ items: Worker[] }>("/workers", { signal })).items,
  refetchInterval: 5000,
})

export const statsQuery = queryOptions({
  queryKey: ["stats"],
  queryFn: ({ signal }) => json<Stats>("/stats", { query: { series: true }, signal }),
  refetchInterval: 10_000,
})

/** Reads who changed a run, a workflow or a job; `state` changes with what it shows, which causes a new read. */
export const changesQuery = (path: `/${"runs" | "workflows" | "jobs"}/${string}`, state: string) =>
  queryOptions({
    queryKey: ["changes", path, state],
    queryFn: async ({ signal }) => (await json<Page<Change>>(`${path}/changes`, { query: { limit: 20 }, signal })).items,
    placeholderData: keepPreviousData,
  })

export const keysQuery = queryOptions({
  queryKey: ["keys"],
  queryFn: async ({ signal }) => (await json<{ items: Key[] }>("/keys", { signal })).items,
})

export const auditQuery = pages<AuditEntry>("audit", "/audit", { limit: 50 })
