// The changes of a batch inside a transaction: sent as one set per kind, all together, then read. Rows whose fence did not hold
// had no effect; they are in `refused`.

import type { LimitState } from "../../../core/rules/admit.ts"
import type { Fence } from "../../../core/model/change.ts"
import type { AttemptId } from "../../../core/model/ids.ts"
import { isGroup } from "../../../core/model/task-path.ts"
import type { Limit } from "../../../core/model/row.ts"
import {
  type Admit,
  admitRows,
  cacheOutputs,
  progressRows,
  releaseRows,
  type Retry,
  retryRows,
  startRows,
} from "./attempt-changes.ts"
import { anyParam } from "../connection/array-params.ts"
import type { ClaimedRow } from "../claim/claimed-row.ts"
import { dropDeadlines, setDeadlines } from "./group-deadlines.ts"
import { dropChildren, expandRow } from "./expand.ts"
import type { Expand, Open, AttemptChanges } from "./coalesce-changes.ts"
import { ensureLimits, FreedSlots, lockLimits, useSlots } from "../claim/limits.ts"
import type { InFlightAttempt } from "../cache/cache.ts"
import { type Opened, openGroup } from "./open-group.ts"
import { type LimitOf, limitsByLane, queueKeys, queueLimits } from "../claim/queue-limits.ts"
import { pipelined, type SqlRunner, statement } from "../connection/connection.ts"
import type { Claimer } from "../claim/claim-unblocked.ts"
import type { End, Settled } from "./outcome.ts"
import { endOf, endRows } from "./finish-attempts.ts"
import { type Wait, type WaitingRow, waitRows } from "./waiting.ts"
import type { Workflows } from "../admin/workflows.ts"

/** A step whose row is known. */
export interface Task {
  held: InFlightAttempt
  step: AttemptChanges
  /** A job that was deleted while it ran. */
  deleted?: boolean
}

export interface Changed {
  /** Steps whose fence held, with the instant when a retry is due, or since when and until when one waits. */
  applied: Map<AttemptChanges, { availableAt: string | null; wait?: { startedAt: string; wakeAt: string | null } }>
  /** Steps with which the last children of a container were made. */
  expanded: Set<AttemptChanges>
  refused: Fence[]
  freed: FreedSlots
  /** Runs in which nothing is open any more. */
  done: number[]
  /** Something became ready for the gate. */
  gates: boolean
  /** Rows that others or this turn may claim now. */
  ready: number
  /** Some of what is freed is a queue's: its lanes may be read further. */
  queueFreed: boolean
  /** A group was opened that has a timeout: something more is due some time. */
  timed: boolean
  /** What became ready and was taken at once. */
  onward: ClaimedRow[]
}

/** As the statement of ends does by itself. */
const LOCK_RUNS = statement("lock_runs", "SELECT 1 FROM runs WHERE seq = ANY ($1::bigint[]) ORDER BY seq FOR UPDATE")

const NO_END: Settled = { ended: new Set(), done: [], ready: 0, gates: false, queues: [], groups: [], onward: [] }

export class Changes {
  readonly #tasks: readonly Task[]
  readonly #careful: boolean
  readonly #ends: { task: Task; end: End }[] = []
  readonly #starts: Task[] = []
  readonly #retries: { task: Task; change: Retry }[] = []
  readonly #releases: Task[] = []
  readonly #waits: (Task & { change: Wait })[] = []
  readonly #progress: Task[]
  readonly #admits: { task: Task; change: Admit }[] = []
  readonly #expands: Task[]

  /** `careful`: some of these were found to be held no more. */
  constructor(tasks: readonly Task[], careful: boolean) {
    this.#tasks = tasks
    this.#careful = careful
    this.#expands = tasks.filter(({ step }) => step.expands.length > 0)
    this.#progress = tasks.filter(({ step }) => step.progress !== null)
    for (const task of tasks) this.#sort(task)
  }

  #sort(task: Task): void {
    const { step, held } = task
    const change = step.final
    if (change === null) {
      if (step.start !== null) this.#starts.push(task)
      return
    }
    const end = endOf(held, step, change)
    if (end !== null) this.#ends.push({ task, end })
    else if (change.kind === "retry") this.#retries.push({ task, change })
    else if (change.kind === "wait") this.#waits.push({ ...task, change })
    else if (change.kind === "release") this.#releases.push(task)
    else if (change.kind === "enqueue") this.#admits.push({ task, change })
  }

  /** Whether slots of limits are involved: then what may be claimed is known only after these changes were read. */
  get limited(): boolean {
    return this.#limits().length > 0 || this.#tasks.some(({ held }) => held.limits !== null && !held.gate)
  }

  /** Nothing but ends and starts: what the next look would see is told by their own answers. */
  get plain(): boolean {
    return this.#ends.length + this.#starts.length === this.#tasks.length
  }

  /** The steps of `applied` that ended rows, with how. */
  ends(applied: ReadonlyMap<AttemptChanges, unknown>): End[] {
    return this.#ends.filter(({ task }) => applied.has(task.step)).map(({ end }) => end)
  }

  lock(tx: SqlRunner): Promise<unknown> {
    if (this.#ends.length === this.#tasks.length) return Promise.resolve()
    return tx.run(LOCK_RUNS, [anyParam(new Set(this.#tasks.map(({ held }) => held.runSeq)))])
  }

  /** Lanes of the live rows that these changes are the last word about: their queues' slots are free then. */
  #lanesLeft(): string[] {
    return this.#tasks.flatMap(({ held, step }) => (held.gate || step.final === null ? [] : held.lane))
  }

  #limits(): Limit[] {
    const admitted = this.#admits.flatMap(({ change }) => change.limits)
    const made = this.#expands.flatMap(({ step }) =>
      step.expands.flatMap((change) =>
        change.kind === "expand" ? change.limits : [...change.limits, ...change.rows.flatMap(({ limits }) => limits)],
      ),
    )
    return [...admitted, ...made]
  }

  /** Sends everything before its first wait, unless limits are named. */
  async apply(
    tx: SqlRunner,
    now: string | null,
    workflows: Workflows,
    gateLanes: readonly string[],
    taker: Claimer | null,
  ): Promise<Changed> {
    const named = this.#limits()
    const ids = named.length === 0 ? new Map<string, number>() : await ensureLimits(tx, named)
    const states = named.length === 0 ? new Map<number, LimitState>() : await lockLimits(tx, ids.values())
    const idsOf = (limits: readonly Limit[]): number[] => limits.map(({ key }) => ids.get(key)!)
    const make = async (row: InFlightAttempt, change: Expand | Open): Promise<Opened> => {
      if (change.kind === "open_group") return openGroup(tx, now, row, change, idsOf, states)
      const kind = isGroup(workflows.now(row.versionId).nodes[row.node]!) ? "group" : "task"
      return (await expandRow(tx, now, row, change, idsOf(change.limits), states, kind)) ? "made" : "refused"
    }

    const started =
      this.#starts.length === 0
        ? []
        : startRows(
            tx,
            this.#starts.flatMap(({ step }) => step.start ?? []),
          )
    const progressed =
      this.#progress.length === 0
        ? []
        : progressRows(
            tx,
            this.#progress.flatMap(({ step }) => step.progress ?? []),
          )
    const waiting = this.#waits.length === 0 ? [] : waitRows(tx, now, this.#waits)
    const expanded = this.#expands.map(({ held, step }) => ({
      step,
      chunks: step.expands.map((change) => pipelined(make(held, change))),
    }))
    const released =
      this.#releases.length === 0
        ? []
        : releaseRows(
            tx,
            now,
            this.#releases.map(({ step }) => step.fence),
          )
    const admitted =
      this.#admits.length === 0
        ? []
        : admitRows(
            tx,
            this.#admits.map(({ change }) => change),
            (limits) => (limits.length === 0 ? null : idsOf(limits)),
          )
    const retried =
      this.#retries.length === 0
        ? []
        : retryRows(
            tx,
            now,
            this.#retries.map(({ task, change }) => ({ step: task.step, change })),
          )
    const ended =
      this.#ends.length === 0
        ? NO_END
        : pipelined(
            endRows(
              tx,
              now,
              this.#ends.map(({ end }) => end),
              (version) => workflows.now(version),
              gateLanes,
              queueKeys(this.#lanesLeft()),
              this.#careful,
              taker,
            ),
          )

    const slots = this.#ends.length === 0 ? pipelined(queueLimits(tx, this.#lanesLeft())) : null

    const held = new Set<AttemptId>()
    const due = new Map<AttemptId, string | null>()
    const waits = new Map((await waiting).map((row) => [row.attempt_id, row]))
    for (const row of await progressed) held.add(row.attempt_id)
    for (const row of [...(await started), ...waits.values(), ...(await released), ...(await admitted)])
      held.add(row.attempt_id)
    for (const row of await retried) due.set(row.attempt_id, row.available_at ?? null)
    const settled = await ended
    const chunks = new Map<AttemptChanges, Opened[]>()
    for (const { step, chunks: made } of expanded) chunks.set(step, await Promise.all(made))
    const outcome = this.#read(held, due, waits, settled, chunks, slots === null ? limitsByLane(settled.queues) : await slots)
    for (const { limits, opened } of settled.groups) {
      if (opened) outcome.freed.addSlots(limits)
      else outcome.freed.addChances(limits)
    }
    const used = this.#expands.flatMap(({ step }) =>
      step.expands.flatMap((change, i) =>
        change.kind === "open_group" && takesSlots(change) && chunks.get(step)![i] === "made" ? idsOf(change.limits) : [],
      ),
    )
    if (used.length > 0) await useSlots(tx, used)
    await this.#follow(tx, now, workflows, outcome)
    return outcome
  }

  #read(
    held: ReadonlySet<AttemptId>,
    due: ReadonlyMap<AttemptId, string | null>,
    waits: ReadonlyMap<AttemptId, WaitingRow>,
    settled: Settled,
    chunks: ReadonlyMap<AttemptChanges, Opened[]>,
    limitOf: LimitOf,
  ): Changed {
    const changed: Changed = {
      applied: new Map(),
      expanded: new Set(),
      refused: [],
      freed: new FreedSlots(),
      done: settled.done,
      gates: settled.gates,
      ready: settled.ready,
      queueFreed: false,
      timed: false,
      onward: settled.onward,
    }
    for (const { held: row, step } of this.#tasks) {
      const { fence, final, expands } = step
      const made = expands.filter((_, i) => chunks.get(step)![i] === "made")
      const parked = expands.filter((_, i) => chunks.get(step)![i] === "parked")
      changed.ready += made.reduce((n, change) => n + Math.max(1, childrenOf(change)), 0)
      if (made.some((change) => change.offset + childrenOf(change) === change.total)) changed.expanded.add(step)
      const { attemptId } = fence
      const written =
        final === null && step.start === null && step.progress === null ? true : isWritten(attemptId, held, due, settled)
      if (!written || made.length + parked.length < expands.length) {
        changed.refused.push(fence)
        continue
      }
      const availableAt = due.get(attemptId) ?? null
      const wait = waits.get(attemptId)
      const times = wait === undefined ? {} : { wait: { startedAt: wait.started_at, wakeAt: wait.resume_at } }
      changed.applied.set(step, { availableAt, ...times })
      if (final === null) continue
      if (!row.gate) {
        const queue = limitOf(row.lane)
        changed.freed.addSlots(row.limits)
        changed.freed.addSlots(queue)
        changed.queueFreed ||= queue.length > 0
      }
      if (!isEnd(final.kind) && final.kind !== "wait" && availableAt === null) changed.ready += 1
    }
    return changed
  }

  /** Writes that only rows whose fence held may cause. */
  async #follow(tx: SqlRunner, now: string | null, workflows: Workflows, changed: Changed): Promise<void> {
    const { applied, expanded } = changed
    const containers = this.#tasks.filter(
      ({ held, step }) =>
        expanded.has(step) || (held.kind !== "task" && applied.has(step) && step.final !== null && isEnd(step.final.kind)),
    )
    const groups = containers.filter(({ held }) => held.kind === "group")
    const placesOf = (which: (task: Task) => boolean): InFlightAttempt[] => groups.filter(which).map(({ held }) => held)
    if (groups.length > 0) {
      changed.timed = await setDeadlines(
        tx,
        now,
        workflows,
        placesOf(({ step }) => expanded.has(step)),
      )
      await dropDeadlines(
        tx,
        workflows,
        placesOf(({ step }) => !expanded.has(step)),
      )
    }
    const cached = this.#ends.flatMap(({ task: { held, step }, end }) => {
      const { final } = step
      if (final?.kind !== "finish" || final.cache === undefined || final.status !== "success" || !applied.has(step)) return []
      const task = workflows.now(held.versionId).nodes[held.node]!.name
      const [inline, key, bytes] = end.output
      const output: End["output"] = inline === null && key === null ? ["null", null, null] : [inline, key, bytes]
      return [{ workflowId: held.workflowId, task, key: final.cache.key, output, ttlMs: final.cache.ttlMs }]
    })
    if (containers.length > 0)
      await dropChildren(
        tx,
        containers.map(({ held }) => held.row),
      )
    if (cached.length > 0) await cacheOutputs(tx, now, cached)
  }
}

const childrenOf = (change: Expand | Open): number => (change.kind === "open_group" ? change.rows.length : change.items.length)

/** With its first rows, or when it goes on with those that it has. */
const takesSlots = ({ offset, rows }: Open): boolean => offset === 0 || rows.length === 0

const isWritten = (
  attemptId: AttemptId,
  held: ReadonlySet<AttemptId>,
  due: ReadonlyMap<AttemptId, string | null>,
  { ended }: Settled,
): boolean => held.has(attemptId) || due.has(attemptId) || ended.has(attemptId)

const ENDS = {
  finish: true,
  skip: true,
  fail: true,
  reuse: true,
  gather: true,
  retry: false,
  release: false,
  wait: false,
  enqueue: false,
} as const

const isEnd = (kind: keyof typeof ENDS): boolean => ENDS[kind]
