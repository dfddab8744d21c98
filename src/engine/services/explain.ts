// Explains the state of every task of a run that has not succeeded: reads what the rules in core/rules/explain.ts need. Bounded: of many
// such tasks, the first are explained and the others counted.

import {
  explainCause,
  explainJob as explainOneJob,
  explainNotification,
  explainRun,
  explainTask,
  type ExplainedTask,
  type Explanation,
  type ExplainContext,
  type QueueState,
} from "../../core/rules/explain.ts"
import { HANDLER_EXECUTOR, jobWorkflow } from "../../core/rules/jobs/job-workflow.ts"
import type { RunId } from "../../core/model/ids.ts"
import { isGroup } from "../../core/model/task-path.ts"
import type { RowState } from "../../core/rules/runs/retry-plan.ts"
import { isRunClosed, type TaskStatus } from "../../core/model/status.ts"
import { accepts, hasFunction } from "../../core/routing/capabilities.ts"
import { type CompiledWorkflow, type Node, REMOTE_EXECUTORS } from "../../core/model/workflow.ts"
import { NotFound } from "../../store/contract/errors.ts"
import type { StatsStore } from "../../store/contract/stats.ts"
import { timedOut } from "../../core/rules/messages.ts"
import type { NotificationStore } from "../../store/contract/notifications.ts"
import type { JobRow, JobStore } from "../../store/contract/jobs.ts"
import type { QueueRow, QueueStore } from "../../store/contract/queues.ts"
import type { LeaseHolderRow, RunRow, Store, TaskRow } from "../../store/contract/store.ts"
import { rowPages } from "../../store/contract/row-pages.ts"

const MAX_TASKS = 200
const PAGE = 500
const MAX_ACTIVE_RUNS = 1000
const MAX_LIMITS = 20
const MAX_SLOT_USERS = 5

export interface ExplainOptions {
  store: Pick<
    Store,
    "getRun" | "getVersion" | "listTasks" | "listRowStates" | "listInnerRowStates" | "getTask" | "listRuns" | "listHolders"
  > &
    Pick<QueueStore, "listQueues"> &
    Pick<StatsStore, "slotUsers"> &
    Pick<NotificationStore, "notificationProblems">
  /** Returns whether a holder that is not marked as dead is alive; see `holderIsAlive`. */
  isAlive(holder: LeaseHolderRow): boolean
  /** Returns why this server cannot work at present, such as a full disk; null: it can. */
  serverProblem?(): Promise<string | null>
}

export interface JobExplainOptions extends Pick<ExplainOptions, "isAlive"> {
  store: Pick<ExplainOptions["store"], "listHolders" | "listQueues" | "slotUsers"> & Pick<JobStore, "getJob">
}

/** Judges a holder by its lease, or by its process where the store does not use leases for its kind. */
export const holderIsAlive =
  (store: Pick<Store, "usesLeases">, now: () => number, processAlive: (identity: string) => boolean) =>
  ({ kind, leaseUntil, process }: LeaseHolderRow): boolean =>
    store.usesLeases || kind === "worker" ? Date.parse(leaseUntil) >= now() : processAlive(process)

/** Explains a run, or with `task` only that task, whatever its state. */
export const explain = async (options: ExplainOptions, runId: RunId, task?: string): Promise<Explanation[]> => {
  const { store } = options
  const run = await store.getRun(runId)
  if (run === null) throw new NotFound(`there is no run ${runId}`)
  const workflow = await store.getVersion(run.versionId)
  if (task !== undefined && !workflow.nodes.some(({ name }) => name === task)) {
    throw new NotFound(`the run ${runId} has no task ${task}`)
  }
  const { tasks, more } = await tasksToExplain(store, run, workflow, task)
  const context = await readContext(options, run, workflow, tasks)
  return [
    ...(task === undefined ? await explainWholeRun(options, run, context) : []),
    ...tasks.map((each) => explainTask(each, context)),
    ...(more > 0
      ? [{ task: null, path: "", status: run.status, sentence: `And ${more} more tasks that have not succeeded.` }]
      : []),
  ]
}

const explainWholeRun = async (options: ExplainOptions, run: RunRow, context: ExplainContext): Promise<Explanation[]> => {
  const { id, status } = run
  const problem = isRunClosed(status) ? null : ((await options.serverProblem?.()) ?? null)
  const ofRun = explainRun(context)
  return [
    ...(problem === null ? [] : [{ task: null, path: "", status, sentence: `The server has a problem: ${problem}.` }]),
    ...(ofRun === null ? [] : [ofRun]),
    ...(run.cause === null ? [] : [explainCause(status, run.cause)]),
    ...(await options.store.notificationProblems(id)).map(({ node, path, ...problem }) => {
      const task = node === null ? null : { name: context.workflow.nodes[node]!.name, path }
      return explainNotification(status, { ...problem, task })
    }),
  ]
}

/** Returns the tasks to explain. `more`: number of tasks that are left out. */
const tasksToExplain = async (
  store: ExplainOptions["store"],
  run: RunRow,
  workflow: CompiledWorkflow,
  task: string | undefined,
): Promise<{ tasks: ExplainedTask[]; more: number }> => {
  const containers = await containersToExplain(store, run, workflow, task)
  const counts = Object.entries(run.tasks).filter(([status]) => status !== "success")
  const total = counts.reduce((sum, [, count]) => sum + count, 0)
  const found: TaskRow[] = []
  let seen = 0
  const query = { runId: run.id, ...(task !== undefined && { name: task }) }
  for await (const page of rowPages(PAGE, (each) => store.listTasks({ ...query, ...each }))) {
    const relevant = page.filter(({ status }) => task !== undefined || status !== "success")
    seen += relevant.length
    found.push(...relevant.slice(0, MAX_TASKS - found.length))
    if (found.length === MAX_TASKS) break
  }
  const more = task === undefined ? Math.max(0, total - found.length) : seen - found.length
  return { tasks: [...found, ...containers], more: found.length === MAX_TASKS ? more : 0 }
}

/** Returns containers that wait like tasks, because they have no children yet. With `task`: containers of that name in any state. */
const containersToExplain = async (
  store: ExplainOptions["store"],
  run: RunRow,
  workflow: CompiledWorkflow,
  task: string | undefined,
): Promise<ExplainedTask[]> => {
  const isRelevant = ({ node, kind, status, childrenCreated }: RowState): boolean =>
    kind !== "task" &&
    (task === undefined
      ? (childrenCreated === 0 && status !== "success") || status === "pending"
      : workflow.nodes[node]!.name === task)
  const found = (await store.listRowStates(run.id)).filter(isRelevant)
  if (workflow.nodes.some(isGroup) && found.length < MAX_TASKS) {
    for await (const page of rowPages(PAGE, (each) => store.listInnerRowStates({ runId: run.id, ...each }))) {
      found.push(...page.filter(isRelevant))
      if (found.length >= MAX_TASKS) break
    }
  }
  const rows = await Promise.all(
    found.slice(0, MAX_TASKS).map(({ node, path }) => store.getTask({ runId: run.id, name: workflow.nodes[node]!.name, path })),
  )
  return rows.filter((row) => row !== null)
}

/** Returns the status of the tasks that tasks inside groups wait for, by node and path. */
const innerUpstream = async (
  store: ExplainOptions["store"],
  run: RunRow,
  workflow: CompiledWorkflow,
  tasks: readonly ExplainedTask[],
): Promise<Map<string, TaskStatus>> => {
  const wanted = new Map<string, { name: string; path: string }>()
  for (const { node, path, upstreamPending } of tasks) {
    const { group, upstream } = workflow.nodes[node]!
    if (group === null || upstreamPending === 0) continue
    for (const up of upstream) wanted.set(`${up}/${path}`, { name: workflow.nodes[up]!.name, path })
  }
  const found = await Promise.all(
    [...wanted].slice(0, PAGE).map(async ([key, task]) => [key, await store.getTask({ runId: run.id, ...task })] as const),
  )
  return new Map(found.flatMap(([key, row]) => (row === null ? [] : [[key, row.status] as const])))
}

const readContext = async (
  options: ExplainOptions,
  run: RunRow,
  workflow: CompiledWorkflow,
  tasks: readonly ExplainedTask[],
): Promise<ExplainContext> => {
  const { store } = options
  const [nodes, queues, holders, active] = await Promise.all([
    store.listRowStates(run.id),
    store.listQueues(),
    store.listHolders(),
    run.status === "pending"
      ? store.listRuns({ workflow: run.workflow, status: "running", limit: MAX_ACTIVE_RUNS })
      : Promise.resolve([]),
  ])
  const stateOf = queueStates(options, queues, holders)
  const previous = run.status === "pending" && run.previousRun !== null ? await store.getRun(run.previousRun) : null
  const waitsFor = previous?.status === "success" ? null : previous
  return {
    workflow,
    run: { ...run, waitsFor, activeRuns: active.length, timedOut: run.error === timedOut(workflow.timeoutMs) },
    now: Date.now(),
    nodes: new Map(nodes.map(({ node, status }) => [node, status])),
    inner: await innerUpstream(store, run, workflow, tasks),
    slotUsers: await slotUsersOf(store, tasks),
    // `ork run` executes the tasks of its private run, whatever their queue.
    queue: (node) => (run.private ? { served: true, paused: false, full: false, rate: null } : stateOf(node)),
  }
}

/** Returns whether a live holder accepts a task or job. */
export const acceptsNode = ({ kind, capabilities }: LeaseHolderRow, node: Node): boolean => {
  if (REMOTE_EXECUTORS.includes(node.executor)) return kind === "server"
  if (capabilities === null) return false
  return node.executor === HANDLER_EXECUTOR ? capabilities.handlers.includes(node.queue) : accepts(capabilities, node)
}

const queueStates = (
  { isAlive }: Pick<ExplainOptions, "isAlive">,
  queues: readonly QueueRow[],
  holders: readonly LeaseHolderRow[],
): ((node: Node) => QueueState) => {
  const queuesByName = new Map(queues.map((queue) => [queue.name, queue]))
  const alive = holders.filter((holder) => !holder.dead && holder.kind !== "run" && isAlive(holder))
  return (node) => {
    const queue = queuesByName.get(node.queue)
    return {
      served: alive.some((holder) => acceptsNode(holder, node)),
      registered: alive.some(({ capabilities }) => capabilities !== null && hasFunction(capabilities, node.function)),
      paused: queue?.paused ?? false,
      full: queue?.concurrency != null && queue.running >= queue.concurrency,
      rate: queue?.rate ?? null,
    }
  }
}

/** Explains the status of a job. */
export const explainJob = async (options: JobExplainOptions, job: JobRow): Promise<Explanation> => {
  const { store } = options
  const [queues, holders, dependencies, slotUsers] = await Promise.all([
    store.listQueues(),
    store.listHolders(),
    job.status === "PENDING" ? Promise.all(job.dependencies.map((id) => store.getJob(id))) : [],
    job.parked === null ? [] : store.slotUsers(job.parked.limit, MAX_SLOT_USERS),
  ])
  const [node] = jobWorkflow(job).nodes as [Node]
  const open = dependencies.filter((found) => found !== null && found.status !== "COMPLETED") as JobRow[]
  return explainOneJob(job, { node, dependencies: open, slotUsers, queue: queueStates(options, queues, holders)(node) })
}

/** Returns the tasks that use the slots of full limits, by limit. */
const slotUsersOf = async (
  store: ExplainOptions["store"],
  tasks: readonly ExplainedTask[],
): Promise<ExplainContext["slotUsers"]> => {
  const keys = new Set(tasks.flatMap(({ parked }) => (typeof parked === "object" && parked !== null ? [parked.limit] : [])))
  const found = [...keys].slice(0, MAX_LIMITS)
  return new Map(await Promise.all(found.map(async (key) => [key, await store.slotUsers(key, MAX_SLOT_USERS)] as const)))
}
