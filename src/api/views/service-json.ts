// Converts rows of the store to the JSON of the API. Runs and tasks are in engine/run-json.ts, which the CLI uses too.

import type { z } from "zod"
import type { JsonObject } from "../../core/values/json.ts"
import { iso } from "../../core/model/ports.ts"
import { formatDuration } from "../../core/values/quantities.ts"
import { nextFirings } from "../../core/time/schedule.ts"
import type { CompiledWorkflow, RetryPolicy, ScheduleSpec, TriggerSpec } from "../../core/model/workflow.ts"
import { scheduleKey } from "../../engine/services/deploy.ts"
import type * as jobs from "../../protocol/api/jobs.ts"
import type * as runViews from "../../protocol/api/run-views.ts"
import type * as service from "../../protocol/api/service.ts"
import type * as workflows from "../../protocol/api/workflows.ts"
import type { Catalog, ScheduleRow, SkippedTick, VersionRow, WorkflowRow } from "../../store/contract/catalog.ts"
import type { JobRow } from "../../store/contract/jobs.ts"
import type { AuditRow, KeyRow } from "../../store/contract/keys.ts"
import type { InstanceRow } from "../../store/contract/run-view.ts"
import type { QueueRow } from "../../store/contract/queues.ts"
import type { PushWorker, ServerStats } from "../http/ports.ts"
import type { LeaseHolderRow } from "../../store/contract/store.ts"
import type { TriggerRow } from "../../store/contract/triggers.ts"

const specShape = (spec: ScheduleSpec): z.output<typeof workflows.scheduleSpec> => ({
  cron: spec.cron,
  timezone: spec.timezone,
  catchup: spec.catchup,
  overlap: spec.overlap,
  jitter_seconds: spec.jitterMs === undefined ? null : spec.jitterMs / 1000,
  start: spec.start ?? null,
  end: spec.end ?? null,
})

const triggerShape = (spec: TriggerSpec, problem: string | null): z.output<typeof workflows.trigger> =>
  "after" in spec
    ? { after: spec.after, when: spec.when, path: null, every_seconds: null, problem }
    : { after: null, when: null, path: spec.path, every_seconds: spec.everyMs / 1000, problem }

const summaryOf = ({ name, version, compiled, paused, createdAt, updatedAt }: WorkflowRow) => ({
  name,
  version,
  description: compiled.description ?? null,
  tags: compiled.tags,
  paused,
  schedules: compiled.schedules.map(specShape),
  triggers: (compiled.triggers ?? []).map((spec) => triggerShape(spec, null)),
  created_at: createdAt,
  updated_at: updatedAt,
})

export const workflowSummaryShape = ({
  workflow,
  lastRuns,
  nextAt,
}: Awaited<ReturnType<Catalog["listWorkflows"]>>[number]): z.output<typeof workflows.workflowSummary> => ({
  ...summaryOf(workflow),
  next_at: nextAt,
  last_runs: lastRuns.map((run) => ({
    id: run.id,
    number: run.number,
    status: run.status,
    created_at: run.createdAt,
    started_at: run.startedAt,
    finished_at: run.finishedAt,
    idle_ms: run.idleMs,
  })),
})

export const graphTasks = ({ nodes }: CompiledWorkflow): z.output<typeof workflows.graphTask>[] =>
  nodes.map((node) => ({
    name: node.name,
    executor: node.executor,
    depends_on: node.upstream.map((up) => nodes[up]!.name),
    group: node.group === null ? null : nodes[node.group]!.name,
    hook: node.hook,
    run_when: node.rule,
    if: node.if ?? null,
    continue_on_error: node.continueOnError === true,
    fan_out: node.fan?.reference ?? null,
    queue: node.queue,
    max_attempts: node.retry.maxAttempts,
  }))

export const workflowShape = (row: WorkflowRow, triggers: readonly TriggerRow[]): z.output<typeof workflows.workflow> => ({
  ...summaryOf(row),
  triggers: triggers.map(({ spec, problem }) => triggerShape(spec, problem)),
  hash: row.hash,
  params: row.compiled.params.map((spec) => ({
    name: spec.name,
    type: spec.type,
    required: spec.required,
    default: spec.default ?? null,
    enum: spec.enum ?? null,
    description: spec.description ?? null,
    schema: spec.schema ?? null,
  })),
  tasks: graphTasks(row.compiled),
  definition: row.source,
})

export const instanceShape = (row: InstanceRow, name: string): z.output<typeof runViews.instanceList>["items"][number] => ({
  name,
  path: row.path,
  label: row.label,
  status: row.status,
  attempt: row.attempt,
  available_at: row.availableAt,
  waiting: row.waitingOn,
  dispatched_at: row.dispatchedAt,
  started_at: row.startedAt,
  finished_at: row.finishedAt,
  past: row.past.map((past) => ({
    attempt: past.attempt,
    status: past.state,
    dispatched_at: past.dispatchedAt,
    started_at: past.startedAt,
    finished_at: past.finishedAt,
  })),
})

export const versionShape = (row: VersionRow): z.output<typeof workflows.version> => ({
  version: row.version,
  hash: row.hash,
  definition: row.source,
  created_at: row.createdAt,
  created_by: row.createdBy,
})

export const scheduleShape = (
  row: ScheduleRow,
  skipped: readonly SkippedTick[],
  { now, ticks }: { now: number; ticks: number },
): z.output<typeof workflows.schedule> => ({
  id: row.id,
  workflow: row.workflow,
  ...specShape(row.spec),
  paused: row.paused,
  next_at: row.nextAt,
  last_tick_at: row.lastTickAt,
  next_ticks: row.paused
    ? []
    : nextFirings(row.spec, scheduleKey(row.workflow, row.position), now, ticks).map(({ tick }) => iso(tick)),
  skipped_ticks: [...skipped],
})

const retryShape = ({ maxAttempts, backoff, baseDelayMs, maxDelayMs, jitter }: RetryPolicy) => ({
  max_attempts: maxAttempts,
  backoff,
  base_delay: formatDuration(baseDelayMs),
  max_delay: formatDuration(maxDelayMs),
  jitter,
})

export const jobShape = (row: JobRow): z.output<typeof jobs.job> => ({
  id: row.id,
  name: row.name,
  queue: row.queue,
  payload: row.payload,
  priority: row.priority,
  status: row.status,
  dependencies: row.dependencies,
  retry_policy: row.retryPolicy,
  created_at: row.createdAt,
  created_by: row.createdBy,
  updated_at: row.updatedAt,
  attempt_count: row.attemptCount,
  task: (row.task?.["source"] as JsonObject | undefined) ?? row.task,
  retry: row.retry === null ? null : retryShape(row.retry),
  max_attempts: row.retry?.maxAttempts ?? row.retryPolicy.max_attempts,
  concurrency_key: row.concurrencyKey,
  concurrency_limit: row.concurrencyLimit,
  limits: row.limits,
  group: row.group,
  idempotency_key: row.key,
  timeout: row.timeoutMs === null ? null : formatDuration(row.timeoutMs),
  expires: row.expiresMs === null ? null : formatDuration(row.expiresMs),
  progress: row.progress,
  error: row.error,
  worker: row.worker,
  available_at: row.availableAt,
  started_at: row.startedAt,
  finished_at: row.finishedAt,
})

export const jobResultShape = (row: JobRow): z.output<typeof jobs.jobResult> => ({
  id: row.id,
  status: row.status,
  output: row.output !== null && "inline" in row.output ? row.output.inline : null,
  output_object: row.output !== null && "key" in row.output ? { key: row.output.key, bytes: row.output.bytes } : null,
  error: row.error,
  exit_code: row.exitCode,
  finished_at: row.finishedAt,
})

export const queueShape = (row: QueueRow, serverStats?: ServerStats): z.output<typeof service.queue> => ({
  name: row.name,
  concurrency: row.concurrency,
  rate_limit: row.rate === null ? null : { limit: row.rate.limit, period_seconds: row.rate.periodMs / 1000 },
  paused: row.paused,
  ready: row.ready,
  running: row.running,
  oldest_ready_seconds: row.oldestReadyMs === null ? null : row.oldestReadyMs / 1000,
  ended_per_minute: serverStats?.endedPerMinute(row.name) ?? null,
})

/**
 * `leases`: the store has leases for servers and `ork run` too. Without, only workers renew a lease; others are seen now while their
 * process is alive, and were last seen when they started otherwise.
 */
export const workerShape = (
  row: LeaseHolderRow,
  { now, leases, alive }: { now: number; leases: boolean; alive: boolean },
): z.output<typeof service.worker> => ({
  id: row.id,
  kind: row.kind,
  name: row.name,
  run_id: row.runId,
  alive,
  lease_until: row.leaseUntil,
  last_seen_at: iso(leases || row.kind === "worker" || !alive ? Date.parse(row.leaseUntil) - row.leaseMs : now),
  queues: row.capabilities === null ? null : row.capabilities.queues === "all" ? ["*"] : [...row.capabilities.queues],
  labels: row.capabilities === null ? null : [...row.capabilities.labels],
  functions: row.capabilities === null ? null : [...(row.capabilities.functions ?? [])],
  capacity: row.capabilities?.capacity ?? null,
  running: row.inFlight,
  version: row.capabilities?.version ?? null,
})

/** A push worker has no lease, and runs the tasks of the queues that its server claims from. */
export const pushWorkerShape = (
  { address, alive, lastSeenAt, running }: PushWorker,
  now: number,
): z.output<typeof service.worker> => ({
  id: address,
  kind: "push",
  name: address,
  run_id: null,
  alive,
  lease_until: iso(lastSeenAt ?? now),
  last_seen_at: iso(lastSeenAt ?? now),
  queues: null,
  labels: [],
  functions: [],
  capacity: null,
  running,
  version: null,
})

export const keyShape = (row: KeyRow): z.output<typeof service.key> => ({
  id: row.id,
  name: row.name,
  scopes: row.scopes,
  queues: row.queues,
  workflows: row.limits?.workflows?.slice() ?? null,
  tags: row.limits?.tags?.slice() ?? null,
  created_at: row.createdAt,
  created_by: row.createdBy,
  last_used_at: row.lastUsedAt,
  expires_at: row.expiresAt,
})

/** `of`: the run, job or workflow that the entry is about; an entry about a task of a run names both. */
export const changeShape = (row: AuditRow, of: string): z.output<typeof service.change> => ({
  at: row.at,
  by: row.actor,
  action: row.action,
  task: row.target.length > of.length ? row.target.slice(of.length + 1) : null,
  details: row.details,
})

export const auditShape = (row: AuditRow): z.output<typeof service.auditEntry> => ({
  id: row.seq,
  at: row.at,
  key_id: row.keyId,
  actor: row.actor,
  subject: row.subject,
  address: row.address,
  action: row.action,
  target: row.target,
  result: row.result,
  details: row.details,
  request: row.request,
  hash: row.hash,
})
