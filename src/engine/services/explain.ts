// Why every task of a run that has not succeeded is where it is: reads what core/rules/explain.ts judges. Bounded: of a run with many such
// tasks the first are told, and how many more there are.

import { explainRun, explainTask, type ExplainedTask, type Explanation, type ExplainContext } from "../../core/rules/explain.ts"
import type { RunId } from "../../core/model/ids.ts"
import { isGroup } from "../../core/model/task-path.ts"
import type { NodeState } from "../../core/rules/retry-plan.ts"
import type { TaskStatus } from "../../core/model/status.ts"
import { accepts, hasFunction } from "../../core/routing/capabilities.ts"
import { type CompiledWorkflow, type Node, REMOTE_EXECUTORS } from "../../core/model/workflow.ts"
import { NotFound } from "../../store/contract/errors.ts"
import type { StatsStore } from "../../store/contract/stats.ts"
import { timedOut } from "../../core/rules/messages.ts"
import type { QueueStore } from "../../store/contract/queues.ts"
import type { LeaseHolderRow, RunRow, Store, TaskRow } from "../../store/contract/store.ts"

const MOST_TOLD = 200
const PAGE = 500
const MOST_ACTIVE = 1000
const MOST_LIMITS = 20
const MOST_HOLDERS = 5

export interface ExplainParts {
  store: Pick<Store, "getRun" | "compiled" | "listTasks" | "listNodes" | "listInner" | "getTask" | "listRuns" | "listHolders"> &
    Pick<QueueStore, "listQueues"> &
    Pick<StatsStore, "limitHolders">
  /** Whether a holder that was not given up on yet lives; see `holderLives`. */
  lives(holder: LeaseHolderRow): boolean
}

/** By its lease, or by its process where the store goes by those. */
export const holderLives =
  (store: Pick<Store, "leases">, now: () => number, processAlive: (identity: string) => boolean) =>
  ({ kind, leaseUntil, process }: LeaseHolderRow): boolean =>
    store.leases || kind === "worker" ? Date.parse(leaseUntil) >= now() : processAlive(process)

/** With `task` about that one alone, whatever its state. */
export const explain = async (parts: ExplainParts, runId: RunId, task?: string): Promise<Explanation[]> => {
  const { store } = parts
  const run = await store.getRun(runId)
  if (run === null) throw new NotFound(`there is no run ${runId}`)
  const workflow = await store.compiled(run.versionId)
  if (task !== undefined && !workflow.nodes.some(({ name }) => name === task)) {
    throw new NotFound(`the run ${runId} has no task ${task}`)
  }
  const { tasks, more } = await tasksToTell(store, run, workflow, task)
  const around = await surroundings(parts, run, workflow, tasks)
  const whole = task === undefined ? explainRun(around) : null
  return [
    ...(whole === null ? [] : [whole]),
    ...tasks.map((each) => explainTask(each, around)),
    ...(more > 0
      ? [{ task: null, path: "", status: run.status, sentence: `And ${more} more tasks that have not succeeded.` }]
      : []),
  ]
}

const tasksToTell = async (
  store: ExplainParts["store"],
  run: RunRow,
  workflow: CompiledWorkflow,
  task: string | undefined,
): Promise<{ tasks: ExplainedTask[]; more: number }> => {
  const waiting = await containers(store, run, workflow, task)
  const counts = Object.entries(run.tasks).filter(([status]) => status !== "success")
  const total = counts.reduce((sum, [, count]) => sum + count, 0)
  const found: TaskRow[] = []
  let after: number | undefined
  let seen = 0
  for (;;) {
    const page = await store.listTasks({
      runId: run.id,
      limit: PAGE,
      ...(task !== undefined && { name: task }),
      ...(after !== undefined && { after }),
    })
    const told = page.filter(({ status }) => task !== undefined || status !== "success")
    seen += told.length
    found.push(...told.slice(0, MOST_TOLD - found.length))
    after = page.at(-1)?.row
    if (page.length < PAGE || found.length === MOST_TOLD) break
  }
  const more = task === undefined ? Math.max(0, total - found.length) : seen - found.length
  return { tasks: [...found, ...waiting], more: found.length === MOST_TOLD ? more : 0 }
}

/** A container without children yet is no task of its own, but it waits like one. Asked for by name, it is told in any state. */
const containers = async (
  store: ExplainParts["store"],
  run: RunRow,
  workflow: CompiledWorkflow,
  task: string | undefined,
): Promise<ExplainedTask[]> => {
  const isTold = ({ node, kind, status, childrenCreated }: NodeState): boolean =>
    kind !== "task" &&
    (task === undefined
      ? (childrenCreated === 0 && status !== "success") || status === "pending"
      : workflow.nodes[node]!.name === task)
  const found = (await store.listNodes(run.id)).filter(isTold)
  const hasGroups = workflow.nodes.some(isGroup)
  for (let after = 0; hasGroups && found.length < MOST_TOLD;) {
    const page = await store.listInner({ runId: run.id, after, limit: PAGE })
    found.push(...page.filter(isTold))
    if (page.length < PAGE) break
    after = page.at(-1)!.row
  }
  const rows = await Promise.all(
    found.slice(0, MOST_TOLD).map(({ node, path }) => store.getTask({ runId: run.id, name: workflow.nodes[node]!.name, path })),
  )
  return rows.filter((row) => row !== null)
}

/** How that stands which tasks inside groups wait for. */
const besides = async (
  store: ExplainParts["store"],
  run: RunRow,
  workflow: CompiledWorkflow,
  tasks: readonly ExplainedTask[],
): Promise<Map<string, TaskStatus>> => {
  const places = new Map<string, { name: string; path: string }>()
  for (const { node, path, upstreamPending } of tasks) {
    const { group, upstream } = workflow.nodes[node]!
    if (group === null || upstreamPending === 0) continue
    for (const up of upstream) places.set(`${up}/${path}`, { name: workflow.nodes[up]!.name, path })
  }
  const found = await Promise.all(
    [...places].slice(0, PAGE).map(async ([place, at]) => [place, await store.getTask({ runId: run.id, ...at })] as const),
  )
  return new Map(found.flatMap(([place, row]) => (row === null ? [] : [[place, row.status] as const])))
}

const surroundings = async (
  parts: ExplainParts,
  run: RunRow,
  workflow: CompiledWorkflow,
  tasks: readonly ExplainedTask[],
): Promise<ExplainContext> => {
  const { store } = parts
  const [nodes, queues, holders, active] = await Promise.all([
    store.listNodes(run.id),
    store.listQueues(),
    store.listHolders(),
    run.status === "pending"
      ? store.listRuns({ workflow: run.workflow, status: "running", limit: MOST_ACTIVE })
      : Promise.resolve([]),
  ])
  const known = new Map(queues.map((queue) => [queue.name, queue]))
  const live = holders.filter((holder) => !holder.dead && holder.kind !== "run" && parts.lives(holder))
  const takes = (node: Node): boolean =>
    live.some(({ kind, capabilities }) =>
      REMOTE_EXECUTORS.includes(node.executor) ? kind === "server" : capabilities !== null && accepts(capabilities, node),
    )
  return {
    workflow,
    run: { ...run, activeRuns: active.length, timedOut: run.error === timedOut(workflow.timeoutMs) },
    nodes: new Map(nodes.map(({ node, status }) => [node, status])),
    inner: await besides(store, run, workflow, tasks),
    slotUsers: await holdersOf(store, tasks),
    queue: (node) => {
      // A private run takes its work whatever its queue.
      if (run.private) return { served: true, paused: false, full: false, rate: null }
      const queue = known.get(node.queue)
      return {
        served: takes(node),
        registered: live.some(({ capabilities }) => capabilities !== null && hasFunction(capabilities, node.function)),
        paused: queue?.paused ?? false,
        full: queue?.concurrency != null && queue.running >= queue.concurrency,
        rate: queue?.rate ?? null,
      }
    },
  }
}

/** Who has the slots that tasks wait for. */
const holdersOf = async (
  store: ExplainParts["store"],
  tasks: readonly ExplainedTask[],
): Promise<ExplainContext["slotUsers"]> => {
  const keys = new Set(tasks.flatMap(({ parked }) => (typeof parked === "object" && parked !== null ? [parked.limit] : [])))
  const found = [...keys].slice(0, MOST_LIMITS)
  return new Map(await Promise.all(found.map(async (key) => [key, await store.limitHolders(key, MOST_HOLDERS)] as const)))
}
