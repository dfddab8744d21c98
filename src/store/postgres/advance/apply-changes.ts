// Applies the changes of a batch: one statement per kind of change, all sent together, then read. Changes whose fence is lost have no
// effect and are rejected.

import type { LimitState } from "../../../core/rules/claims/admit.ts"
import type { Fence } from "../../../core/model/change.ts"
import type { AttemptId } from "../../../core/model/ids.ts"
import type { Limit } from "../../../core/model/row.ts"
import { isGroup } from "../../../core/model/task-path.ts"
import { outputColumns } from "../../shared/codec.ts"
import type { CachedAttempt } from "../cache/cache.ts"
import { nodeOf } from "../cache/workflows.ts"
import { ensureLimits, FreedSlots, lockLimits, useSlots } from "../claim/limits.ts"
import { limitsByLane, queueKeys, queueLimits } from "../claim/queue-limits.ts"
import { pipelined, statement } from "../connection/statement.ts"
import type { Tx } from "../tx.ts"
import {
  cacheOutputs,
  type Enqueue,
  enqueueRows,
  progressRows,
  releaseRows,
  requeueRows,
  type Retry,
  retryRows,
  startRows,
} from "./attempt-changes.ts"
import type { AttemptChanges, Expand, OpenGroup } from "./coalesce-changes.ts"
import { deleteOldChildren, expandRow } from "./expand.ts"
import { type Finish, type FinishResult, toFinish } from "./finish.ts"
import { finishAttempts, type FinishPlan } from "./finish-attempts.ts"
import { deleteGroupTimeouts, startGroupTimeouts } from "./group-timeouts.ts"
import { type ChunkResult, openGroup, takesSlots } from "./open-group.ts"
import { type WaitingAttempt, type WaitingRow, waitRows } from "./waiting.ts"

/** The changes of one attempt, and its row. */
export interface AttemptUpdate {
  inFlight: CachedAttempt
  attempt: AttemptChanges
  /** Whether it is a job that was deleted while it ran. */
  deleted?: boolean
}

/** The updates of a batch by kind of change. */
export interface ChangePlan {
  updates: readonly AttemptUpdate[]
  starts: AttemptUpdate[]
  progress: AttemptUpdate[]
  waits: WaitingAttempt[]
  expands: AttemptUpdate[]
  releases: Fence[]
  requeues: Fence[]
  enqueues: Enqueue[]
  retries: { attempt: AttemptChanges; last: Retry }[]
  finishes: { update: AttemptUpdate; finish: Finish }[]
  /** Limits of rows that the changes enqueue or create. */
  limits: Limit[]
}

export const planChanges = (updates: readonly AttemptUpdate[]): ChangePlan => {
  const plan: ChangePlan = {
    updates,
    starts: updates.filter(({ attempt }) => attempt.last === null && attempt.start !== null),
    progress: updates.filter(({ attempt }) => attempt.progress !== null),
    expands: updates.filter(({ attempt }) => attempt.expands.length > 0),
    waits: [],
    releases: [],
    requeues: [],
    enqueues: [],
    retries: [],
    finishes: [],
    limits: [],
  }
  for (const update of updates) addLast(plan, update)
  plan.limits.push(
    ...plan.enqueues.flatMap((change) => change.limits),
    ...plan.expands.flatMap(({ attempt }) => attempt.expands.flatMap(limitsOfChildren)),
  )
  return plan
}

const addLast = (plan: ChangePlan, update: AttemptUpdate): void => {
  const { inFlight, attempt } = update
  const { last } = attempt
  if (last === null) return
  const finish = toFinish(inFlight, attempt, last)
  if (finish !== null) plan.finishes.push({ update, finish })
  else if (last.kind === "retry") plan.retries.push({ attempt, last })
  else if (last.kind === "wait") plan.waits.push({ inFlight, attempt, wait: last })
  else if (last.kind === "release") plan.releases.push(attempt.fence)
  else if (last.kind === "requeue") plan.requeues.push(attempt.fence)
  else if (last.kind === "enqueue") plan.enqueues.push(last)
}

const limitsOfChildren = (change: Expand | OpenGroup): Limit[] =>
  change.kind === "expand" ? change.limits : [...change.limits, ...change.rows.flatMap(({ limits }) => limits)]

/** Returns whether the changes use or free slots of limits: then what may be claimed is known only after they were applied. */
export const usesLimits = ({ limits, updates }: ChangePlan): boolean =>
  limits.length > 0 || updates.some(({ inFlight }) => inFlight.limits !== null && inFlight.usesSlots)

const LOCK_RUNS = statement("lock_runs", "SELECT 1 FROM runs WHERE seq = ANY (:runs::bigint[]) ORDER BY seq FOR UPDATE")

/** Locks the runs of the changes in order, unless all changes are finishes: their statement does it. */
export const lockRuns = async (tx: Tx, { finishes, updates }: ChangePlan): Promise<void> => {
  if (finishes.length < updates.length)
    await tx.run(LOCK_RUNS, { runs: [...new Set(updates.map(({ inFlight }) => inFlight.runSeq))] })
}

/** Result of an update whose fence held. */
export interface AppliedUpdate {
  /** When a retry is due. */
  availableAt: string | null
  /** Since when, and until when, the attempt waits. */
  wait?: { startedAt: string; resumeAt: string | null }
}

export interface AppliedChanges {
  /** Updates whose fence held. */
  outcomes: Map<AttemptChanges, AppliedUpdate>
  /** Updates with which the last children of a container were created. */
  expanded: Set<AttemptChanges>
  rejected: Fence[]
  finish: FinishResult
  /** Slots that were freed; the caller writes them back. */
  freed: FreedSlots
  /** Whether slots of a queue are among them: its lanes may be claimed from again. */
  queueFreed: boolean
  /** Number of rows that became ready. */
  ready: number
  /** Whether a group with a timeout was opened. */
  timeoutStarted: boolean
}

interface FinishInput {
  finishPlan: FinishPlan
  /** Lanes that the gate of this turn claims from. */
  gateLanes: readonly string[]
}

/** Sends all statements before its first await, unless limits are named. */
export const applyChanges = async (tx: Tx, plan: ChangePlan, finishes: FinishInput): Promise<AppliedChanges> => {
  const named = plan.limits.length === 0 ? NO_LIMITS : await lockNamedLimits(tx, plan.limits)
  const replies = await receive(send(tx, plan, { ...finishes, named }))
  const applied = readReplies(plan, replies)
  giveBackSlots(plan, applied, replies.queueLimitsOf)
  await useGroupSlots(tx, plan, replies.chunks, named.idsOf)
  await followUp(tx, plan, applied)
  return applied
}

/** Sends the statements of all changes. */
const send = (tx: Tx, plan: ChangePlan, { finishPlan, gateLanes, named }: FinishInput & { named: NamedLimits }) => {
  const freedLanes = plan.updates.flatMap(({ inFlight, attempt }) =>
    !inFlight.usesSlots || attempt.last === null ? [] : inFlight.lane,
  )
  return {
    updated: [
      startRows(
        tx,
        plan.starts.flatMap(({ attempt }) => attempt.start ?? []),
      ),
      progressRows(
        tx,
        plan.progress.flatMap(({ attempt }) => attempt.progress ?? []),
      ),
    ].map(pipelined),
    waits: pipelined(waitRows(tx, plan.waits)),
    chunks: plan.expands.map(({ inFlight, attempt }) => ({
      attempt,
      results: attempt.expands.map((change) => pipelined(createChildren(tx, { inFlight, change, ...named }))),
    })),
    returned: [releaseRows(tx, plan.releases), requeueRows(tx, plan.requeues), enqueueRows(tx, plan.enqueues, named.idsOf)].map(
      pipelined,
    ),
    retries: pipelined(retryRows(tx, plan.retries)),
    finish: pipelined(finishAttempts(tx, finishPlan, { gateLanes, freedLimitKeys: queueKeys(freedLanes) })),
    // The finish returns the limits of its queues itself.
    queueLimits: plan.finishes.length > 0 ? null : pipelined(queueLimits(tx, freedLanes)),
  }
}

/** Awaits the replies in the order in which their statements were sent. */
const receive = async (sent: ReturnType<typeof send>): Promise<Replies> => {
  const waits = new Map((await sent.waits).map((row) => [row.attempt_id, row]))
  const fenceHeld = new Set([
    ...(await Promise.all([...sent.updated, ...sent.returned])).flat().map((row) => row.attempt_id),
    ...waits.keys(),
  ])
  const retries = new Map((await sent.retries).map((row) => [row.attempt_id, row.available_at ?? null]))
  const finish = await sent.finish
  const chunks = new Map<AttemptChanges, ChunkResult[]>()
  for (const { attempt, results } of sent.chunks) chunks.set(attempt, await Promise.all(results))
  const queueLimitsOf = sent.queueLimits === null ? limitsByLane(finish.queueLimits) : await sent.queueLimits
  return { fenceHeld, retries, waits, finish, chunks, queueLimitsOf }
}

interface NamedLimits {
  idsOf: (limits: readonly Limit[]) => number[]
  states: Map<number, LimitState>
}

const NO_LIMITS: NamedLimits = { idsOf: () => [], states: new Map() }

const lockNamedLimits = async (tx: Tx, named: readonly Limit[]): Promise<NamedLimits> => {
  const ids = await ensureLimits(tx, named)
  return { idsOf: (limits) => limits.map(({ key }) => ids.get(key)!), states: await lockLimits(tx, ids.values()) }
}

const createChildren = async (
  tx: Tx,
  { inFlight, change, idsOf, states }: NamedLimits & { inFlight: CachedAttempt; change: Expand | OpenGroup },
): Promise<ChunkResult> => {
  if (change.kind === "open_group") return openGroup(tx, { inFlight, change, idsOf, states })
  const kind = isGroup(nodeOf(tx.workflows, inFlight)) ? "group" : "task"
  const isExpanded = await expandRow(tx, { inFlight, change, limits: idsOf(change.limits), states, kind })
  return isExpanded ? "created" : "rejected"
}

interface Replies {
  /** Attempts whose start, progress, wait, release or enqueue was applied. */
  fenceHeld: ReadonlySet<AttemptId>
  /** Retried attempts, with when they are due. */
  retries: ReadonlyMap<AttemptId, string | null>
  waits: ReadonlyMap<AttemptId, WaitingRow>
  finish: FinishResult
  chunks: ReadonlyMap<AttemptChanges, ChunkResult[]>
  /** Returns the limits of the queue of a lane. */
  queueLimitsOf: (lane: string) => readonly number[]
}

const readReplies = (plan: ChangePlan, replies: Replies): AppliedChanges => {
  const finishing = changesThatFinish(plan)
  const result: AppliedChanges = {
    outcomes: new Map(),
    expanded: new Set(),
    rejected: [],
    finish: replies.finish,
    freed: new FreedSlots(),
    queueFreed: false,
    ready: replies.finish.ready,
    timeoutStarted: false,
  }
  for (const { attempt } of plan.updates) {
    const { fence, last, expands } = attempt
    const { attemptId } = fence
    const chunks = replies.chunks.get(attempt) ?? []
    const created = expands.filter((_, i) => chunks[i] === "created")
    result.ready += created.reduce((n, change) => n + Math.max(1, childrenOf(change)), 0)
    if (created.some((change) => change.offset + childrenOf(change) === change.total)) result.expanded.add(attempt)
    if (chunks.includes("rejected") || (writesRow(attempt) && !isHeld(attemptId, replies))) {
      result.rejected.push(fence)
      continue
    }
    const availableAt = replies.retries.get(attemptId) ?? null
    const wait = replies.waits.get(attemptId)
    result.outcomes.set(attempt, {
      availableAt,
      ...(wait !== undefined && { wait: { startedAt: wait.started_at, resumeAt: wait.resume_at } }),
    })
    if (last !== null && !finishing.has(attempt) && last.kind !== "wait" && availableAt === null) result.ready += 1
  }
  return result
}

const changesThatFinish = ({ finishes }: ChangePlan): ReadonlySet<AttemptChanges> =>
  new Set(finishes.map(({ update }) => update.attempt))

/** Returns whether a change other than the creation of children wrote the row. */
const writesRow = ({ last, start, progress }: AttemptChanges): boolean => last !== null || start !== null || progress !== null

const isHeld = (attemptId: AttemptId, { fenceHeld, retries, finish }: Replies): boolean =>
  fenceHeld.has(attemptId) || retries.has(attemptId) || finish.finished.has(attemptId)

/** Collects the slots of limits and queues that attempts and groups do not use any more. */
const giveBackSlots = (
  { updates }: ChangePlan,
  result: AppliedChanges,
  queueLimitsOf: (lane: string) => readonly number[],
): void => {
  for (const { inFlight, attempt } of updates) {
    if (!result.outcomes.has(attempt) || attempt.last === null || !inFlight.usesSlots) continue
    const ofQueue = queueLimitsOf(inFlight.lane)
    result.freed.free(inFlight.limits)
    result.freed.free(ofQueue)
    result.queueFreed ||= ofQueue.length > 0
  }
  for (const { limits, opened } of result.finish.groups) {
    if (opened) result.freed.free(limits)
    else result.freed.unparkInPlaceOf(limits)
  }
}

const useGroupSlots = async (
  tx: Tx,
  { expands }: ChangePlan,
  chunks: ReadonlyMap<AttemptChanges, ChunkResult[]>,
  idsOf: NamedLimits["idsOf"],
): Promise<void> => {
  const used = expands.flatMap(({ attempt }) =>
    attempt.expands.flatMap((change, i) =>
      change.kind === "open_group" && takesSlots(change) && chunks.get(attempt)![i] === "created" ? idsOf(change.limits) : [],
    ),
  )
  if (used.length > 0) await useSlots(tx, used)
}

/** Writes that only updates whose fence held may cause: timeouts of groups, old children, cached outputs. */
const followUp = async (tx: Tx, plan: ChangePlan, result: AppliedChanges): Promise<void> => {
  const { outcomes, expanded } = result
  const finishing = changesThatFinish(plan)
  const containers = plan.updates.filter(
    ({ inFlight, attempt }) =>
      expanded.has(attempt) || (inFlight.kind !== "task" && outcomes.has(attempt) && finishing.has(attempt)),
  )
  const groups = containers.filter(({ inFlight }) => inFlight.kind === "group")
  const rowsOf = (opened: boolean): CachedAttempt[] =>
    groups.filter(({ attempt }) => expanded.has(attempt) === opened).map(({ inFlight }) => inFlight)
  result.timeoutStarted = await startGroupTimeouts(tx, rowsOf(true))
  await deleteGroupTimeouts(tx, rowsOf(false))
  await deleteOldChildren(
    tx,
    containers.map(({ inFlight }) => inFlight.row),
  )
  await cacheOutputs(
    tx,
    plan.finishes.flatMap(({ update: { inFlight, attempt }, finish }) => {
      const { last } = attempt
      if (last?.kind !== "finish" || last.cache === undefined || last.status !== "success" || !outcomes.has(attempt)) return []
      const task = nodeOf(tx.workflows, inFlight).name
      const [inline, key, bytes] = last.cache.output === undefined ? finish.output : outputColumns(last.cache.output)
      const output: Finish["output"] = inline === null && key === null ? ["null", null, null] : [inline, key, bytes]
      return [{ workflowId: inFlight.workflowId, task, key: last.cache.key, output, ttlMs: last.cache.ttlMs }]
    }),
  )
}

const childrenOf = (change: Expand | OpenGroup): number =>
  change.kind === "open_group" ? change.rows.length : change.items.length
