// One turn of the loop in one transaction. What does not depend on an answer travels together: BEGIN, locks, changes, claims and
// the look at timers go out at once; what the claims need, and COMMIT, follow at once. Only a batch that meets limits, cancels,
// timers or ends of runs takes more round trips, inside the same transaction.

import type { Fence } from "../../core/change.ts"
import type { AttemptId } from "../../core/ids.ts"
import { everyCalled } from "../../core/lanes.ts"
import { iso } from "../../core/ports.ts"
import type { TaskStatus } from "../../core/status.ts"
import { JOBS } from "../job-rows.ts"
import type { Advanced, Batch, Claim, StoreEvent } from "../store.ts"
import { plain } from "./arrays.ts"
import { cancelPending } from "./cancel.ts"
import { Changes, type Task } from "./changes.ts"
import { type Answer, Claims, type Taken } from "./claim.ts"
import { type Closed, closeRuns } from "./close.ts"
import { logEvents } from "./event-log.ts"
import { tellCancelled, tellClaims, tellClosed, tellSteps } from "./events.ts"
import { cancelOverdue, withDeadlines } from "./deadlines.ts"
import { fold, type Step } from "./fold.ts"
import type { Instants } from "./instants.ts"
import { tellReleased } from "./job-edges.ts"
import { lockJobs, settleJobs } from "./job-turn.ts"
import { type Ended, type Held, type Memory, worthKnowing } from "./memory.ts"
import { loadRuns, toClaims } from "./needs.ts"
import { NOTIFY } from "./notify.ts"
import { QueueClaims } from "./queue-claim.ts"
import { later, type Runner, statement } from "./session.ts"
import { FenceLost } from "./succeed.ts"
import { type Look, look, runTimers } from "./timers.ts"
import type { Sessions, Transaction } from "./transaction.ts"
import { claimWoken } from "./waiting.ts"
import type { Workflows } from "./workflows.ts"

const HELD = statement(
  "held",
  `SELECT t.id AS row, t.attempt_id AS "attemptId", t.run_seq AS "runSeq", COALESCE(r.id::text, '') AS "runId",
     COALESCE(r.private, false) AS private, r.scope, t.waits IS NOT NULL AS waits, t.workflow_id AS "workflowId", COALESCE(r.version_id, 0) AS "versionId", t.node, t.path,
     t.kind, t.lane, t.attempt, t.limits, t.status, COALESCE(r.round, 0) AS round
   FROM unnest($1::bigint[], $2::uuid[]) AS c (id, attempt_id)
   JOIN tasks t ON t.id = c.id AND t.attempt_id = c.attempt_id LEFT JOIN runs r ON r.seq = t.run_seq`,
)

/** What others do without saying so (a retry that they set, a server that died) is seen this late at most. */
const LOOK_EVERY_MS = 25

export interface LoopDeps {
  sessions: Sessions
  workflows: Workflows
  memory: Memory
  instants: Instants
  /** Names this store among those that listen, and where they listen. */
  channel: string
  self: string
  /** Whether others' notes arrive: if not, every turn looks for what they did. */
  listening(): boolean
}

interface Sent {
  gate: Promise<Answer[]> | null
  claim: Promise<Answer[]> | null
}

interface Taking {
  gates: Taken[]
  claims: Taken[]
  more: boolean
  /** The instant of the transaction, if the claim was asked. */
  at: string | null
  /** Milliseconds until the rate of a queue lets more of it start, or null. */
  waitMs: number | null
}

export class Loop {
  readonly #deps: LoopDeps
  readonly #gates: Claims
  readonly #work: Claims
  readonly #queued: QueueClaims
  /** Timers or cancels that the last look saw come before the claims of the next turn. */
  #slow = true
  /** There was something for the gate when it was last asked, or since: the next turn asks for it at once. */
  #gated = true
  /** Others, or this store beside the loop, have changed something: look, however short ago the last look was. */
  #stale = true
  #lookedAt = 0
  readonly #closedBeside: Advanced["closed"] = []
  busy = false
  /** The gate's lanes then. */
  #lookedFor = ""
  /** When the next timer is due, on the clock of `instants.roughly`. */
  #dueAt = Number.POSITIVE_INFINITY

  constructor(deps: LoopDeps) {
    this.#deps = deps
    this.#gates = new Claims("gate", deps.instants)
    this.#work = new Claims("claim", deps.instants)
    this.#queued = new QueueClaims(deps.instants)
  }

  async advance(batch: Batch): Promise<Advanced> {
    const folded = fold(batch.changes)
    this.busy = true
    try {
      const turn = await this.#deps.sessions
        .transaction((tx) => this.#turn(tx, batch, folded, false))
        .catch((error: unknown) => {
          if (!(error instanceof FenceLost)) throw error
          this.#stale = true
          return this.#deps.sessions.transaction((tx) => this.#turn(tx, batch, folded, true))
        })
      this.#remember(turn, batch)
      turn.advanced.closed.unshift(...this.#closedBeside.splice(0))
      return turn.advanced
    } catch (error) {
      this.#stale = true
      throw error
    } finally {
      this.busy = false
    }
  }

  /** Runs that were ended beside the loop: told with its next turn. */
  closed(runs: Advanced["closed"]): void {
    this.#closedBeside.push(...runs)
  }

  /** Something was committed beside the loop. */
  stale(): void {
    this.#stale = true
  }

  /** Whether a look would see nothing new: all changes since the last one are known here. */
  #knows(changes: Changes, { gate }: Batch): boolean {
    const fresh = performance.now() - this.#lookedAt < LOOK_EVERY_MS && gate.lanes.join() === this.#lookedFor
    return fresh && !this.#stale && changes.plain && this.#deps.listening()
  }

  #due(): number | null {
    return this.#dueAt === Number.POSITIVE_INFINITY ? null : this.#dueAt - this.#deps.instants.roughly()
  }

  async #turn(tx: Transaction, batch: Batch, { steps, refused }: ReturnType<typeof fold>, careful: boolean): Promise<Turn> {
    const { workflows, instants, memory } = this.#deps
    const now = instants.now()
    const { tasks: found, lost } = await this.#find(tx, steps)
    const known = await lockJobs(tx, found, instants.roughly())
    await workflows.load(known.flatMap(({ held }) => (held.runSeq === JOBS ? [] : held.versionId)))
    const { tasks, overdue } = await withDeadlines(tx, workflows, known, instants.roughly())
    const changes = new Changes(tasks, careful)
    const slow = this.#slow || changes.limited || overdue.size > 0 || instants.roughly() >= this.#dueAt
    const timers = async (): Promise<number> => {
      const { ready: made, groups } = await runTimers(tx, now, workflows)
      for (const group of groups) overdue.add(group)
      return made
    }

    const locked = changes.lock(tx)
    let ready = slow ? await timers() : 0
    const changing = later(changes.apply(tx, now, workflows, batch.gate.lanes))
    if (slow) await changing
    const woken = slow ? await claimWoken(tx, halfOf(batch), now) : []
    const early = slow ? null : this.#send(tx, batch, now, this.#gated)
    const skip = !slow && this.#knows(changes, batch) && early?.claim !== null
    if (!skip) this.#stale = false
    const looking = skip ? null : later(look(tx, now, batch))
    await locked
    const changed = await changing
    const released = await settleJobs(tx, now, tasks, changed)
    ready += changed.ready + released.ready.length
    let taking: Taking = early === null ? NOTHING_TAKEN : await this.#take(tx, batch, early, now)
    const done = changed.done.length > 0
    let seen: Look =
      looking !== null
        ? await looking
        : done
          ? await look(tx, now, batch)
          : { now: taking.at!, due: this.#due(), gates: changed.gates, cancelling: [], stopped: [] }

    const late = !slow && seen.due !== null && seen.due <= 0
    if (late) {
      ready += await timers()
      const wish = { ...halfOf(batch), limit: Math.min(halfOf(batch).limit, batch.gate.limit - taking.gates.length) }
      woken.push(...(await claimWoken(tx, wish, now)))
      seen = await look(tx, now, batch)
    }
    const cancelling = seen.cancelling.map(({ runSeq }) => runSeq)
    const cancelled = cancelling.length === 0 ? null : await cancelPending(tx, now, workflows, cancelling)
    const expired = overdue.size === 0 ? null : await cancelOverdue(tx, now, overdue)
    const ended = [...(cancelled?.rows ?? []), ...(expired?.rows ?? [])]
    for (const row of ended) if (row.was_ready) changed.freed.chances(row.limits)
    const over = [...new Set([...changed.done, ...cancelling])]
    const closed = over.length === 0 ? NOTHING_CLOSED : await closeRuns(tx, now, workflows, over)
    const unparked = changed.freed.any ? await changed.freed.apply(tx) : 0
    // Others may have something to stop, or to gather.
    ready += unparked + closed.rows + (expired === null ? 0 : 1)
    const forGate = seen.gates && early?.gate === null
    const freed = changed.queueFreed || released.ready.length + unparked + closed.rows > 0
    if (slow || late || cancelled !== null || expired !== null || forGate || freed || this.#work.general)
      taking = await this.#takeMore(tx, batch, taking, now)
    if (cancelled !== null || expired !== null || changed.timed || late || closed.woken || closed.started.length > 0)
      seen = await look(tx, now, batch)

    taking = { ...taking, gates: [...woken, ...taking.gates] }

    const events: StoreEvent[] = []
    const told = { workflows, at: seen.now, events }
    tellSteps(told, tasks, changed)
    events.push(...tellReleased(released, seen.now))
    if (ended.length > 0) {
      const runs = await loadRuns(
        tx,
        memory,
        ended.map((row) => row.run_seq),
      )
      tellCancelled(told, ended, runs)
    }
    tellClosed(told, closed)
    await workflows.load([...taking.gates, ...taking.claims].flatMap((row) => (row.run_seq === JOBS ? [] : row.version_id)))
    tellClaims(told, taking.claims)
    const logged = logEvents(tx, now, events)
    const ends = worthKnowing(changes.ends(changed.applied))
    const notified = ready > taking.gates.length + taking.claims.length ? this.#notify(tx) : null
    const gates = later(toClaims(tx, memory, workflows, taking.gates, ends, now))
    const claims = later(toClaims(tx, memory, workflows, taking.claims, ends, now))
    void tx.commit()
    await logged
    await notified
    const taken = { gates: await gates, claims: await claims }
    const settled = new Set(tasks.flatMap(({ step }) => (changed.applied.has(step) && step.last ? step.fence.attemptId : [])))
    const isDue = seen.due !== null && seen.due <= 0
    const open = seen.cancelling.filter(({ runSeq }) => !closed.runs.some((run) => run.runSeq === runSeq))
    return {
      tasks,
      changed: changed.applied,
      ends,
      rows: new Map([...taking.claims, ...taking.gates].map((row) => [row.id, row])),
      looked: !skip,
      slow: isDue || open.length > 0,
      gated: seen.gates || taking.gates.length > 0 || (this.#gated && batch.gate.limit <= 0),
      due: seen.due,
      advanced: {
        refused: once([...refused, ...lost, ...changed.refused]),
        ...taken,
        cancelling: open.filter(({ held }) => held).map(({ runSeq, reason }) => ({ runSeq, reason })),
        stopped: seen.stopped.filter((attemptId) => !settled.has(attemptId)),
        closed: closed.runs.map(({ runSeq, runId, status }) => ({ runSeq, runId, status })),
        events,
        more: taking.more || isDue || (cancelled?.full ?? false) || (expired?.full ?? false),
        nextDueMs: soonest(seen.due === null ? null : Math.max(0, Math.ceil(seen.due)), taking.waitMs),
      },
    }
  }

  /** What the store gave out it knows; the rest (another's, or from before a restart) it reads. */
  async #find(tx: Runner, steps: readonly Step[]): Promise<{ tasks: Task[]; lost: Fence[] }> {
    const { memory } = this.#deps
    const found = new Map<AttemptId, Held>()
    const unknown: Fence[] = []
    for (const { fence } of steps) {
      const held = memory.held.get(fence.attemptId)
      if (held === undefined) unknown.push(fence)
      else found.set(fence.attemptId, held)
    }
    if (unknown.length > 0) {
      const values = [plain(unknown.map(({ row }) => row)), plain(unknown.map(({ attemptId }) => attemptId))]
      type Found = Omit<Held, "gate" | "started"> & { status: TaskStatus; waits: boolean }
      for (const { status, waits, ...row } of await tx.run<Found>(HELD, values))
        found.set(row.attemptId, { ...row, gate: status === "pending" || waits, started: status === "running" })
    }
    const tasks: Task[] = []
    const lost: Fence[] = []
    for (const step of steps) {
      const held = found.get(step.fence.attemptId)
      if (held === undefined || held.row !== step.fence.row) lost.push(step.fence)
      else tasks.push({ held, step })
    }
    return { tasks, lost }
  }

  #send(tx: Runner, batch: Batch, now: string | null, gates = true): Sent {
    const { holder, gate, claim } = batch
    // The short way knows no lanes of calls but those that are named.
    if (everyCalled(claim.lanes).length > 0) this.#work.general = true
    const send = (claims: Claims, { lanes, limit }: Batch["gate"]): Promise<Answer[]> | null =>
      limit > 0 && lanes.length > 0 ? claims.send(tx, { holder, lanes, limit }, now) : null
    return { gate: gates ? send(this.#gates, gate) : null, claim: this.#work.general ? null : send(this.#work, claim) }
  }

  async #take(tx: Runner, batch: Batch, sent: Sent, now: string | null): Promise<Taking> {
    const { holder } = batch
    const gate = sent.gate === null ? NONE : await this.#gates.finish(tx, await sent.gate, { holder, ...batch.gate }, now)
    const claim = sent.claim === null ? NONE : await this.#work.finish(tx, await sent.claim, { holder, ...batch.claim }, now)
    const at = sent.claim === null ? null : iso((await sent.claim)[0]!.now)
    return { gates: gate.taken, claims: claim.taken, more: gate.more || claim.more, at, waitMs: null }
  }

  async #takeMore(tx: Runner, batch: Batch, taking: Taking, now: string | null): Promise<Taking> {
    const rest = {
      ...batch,
      gate: { ...batch.gate, limit: batch.gate.limit - taking.gates.length },
      claim: { ...batch.claim, limit: batch.claim.limit - taking.claims.length },
    }
    const next = await this.#take(tx, rest, this.#send(tx, rest, now), now)
    const claims = [...taking.claims, ...next.claims]
    const wish = { holder: batch.holder, ...batch.claim, limit: batch.claim.limit - claims.length }
    const queued = this.#work.general ? await this.#queued.take(tx, wish, now) : NOT_QUEUED
    if (queued.settled) this.#work.general = false
    return {
      gates: [...taking.gates, ...next.gates],
      claims: [...claims, ...queued.taken],
      more: next.more || queued.more,
      at: next.at ?? taking.at,
      waitMs: queued.waitMs,
    }
  }

  #notify(tx: Runner): Promise<unknown> {
    return tx.run(NOTIFY, [this.#deps.channel, this.#deps.self])
  }

  /** After the commit: what is held now, and what the next turn must look at first. */
  #remember({ tasks, changed, advanced, ends, rows, looked, slow, gated, due }: Turn, batch: Batch): void {
    const { memory } = this.#deps
    this.#slow = slow
    this.#gated = gated
    if (looked) {
      this.#lookedAt = performance.now()
      this.#lookedFor = batch.gate.lanes.join()
      this.#dueAt = due === null ? Number.POSITIVE_INFINITY : this.#deps.instants.roughly() + due
    }
    for (const [place, end] of ends) memory.ended.set(place, end)
    for (const { held, step } of tasks) {
      if (!changed.has(step) || step.last !== null) memory.held.delete(held.attemptId)
      else memory.held.set(held.attemptId, { ...held, started: held.started || step.start !== null })
    }
    const remember = (claim: Claim, gate: boolean): void =>
      memory.held.set(claim.attemptId, {
        row: claim.row,
        attemptId: claim.attemptId,
        runSeq: claim.runSeq,
        runId: claim.runId,
        private: claim.run.private,
        scope: claim.run.scope,
        workflowId: claim.workflowId,
        versionId: claim.versionId,
        node: claim.node,
        path: claim.path,
        kind: claim.kind,
        lane: rows.get(claim.row)!.lane,
        attempt: claim.attempt,
        limits: rows.get(claim.row)!.limits,
        round: rows.get(claim.row)!.round,
        gate,
        started: claim.waits !== null,
      })
    for (const claim of advanced.gates) remember(claim, true)
    for (const claim of advanced.claims) remember(claim, false)
  }
}

interface Turn {
  tasks: Task[]
  changed: ReadonlyMap<Step, unknown>
  ends: ReadonlyMap<string, Ended>
  rows: ReadonlyMap<number, Taken>
  looked: boolean
  slow: boolean
  gated: boolean
  due: number | null
  advanced: Advanced
}

/** What was woken has half of the gate's places to itself. */
const halfOf = ({ holder, gate }: Batch): { holder: Batch["holder"]; lanes: string[]; limit: number } => ({
  holder,
  lanes: gate.lanes,
  limit: Math.ceil(gate.limit / 2),
})

const once = (fences: Fence[]): Fence[] => [...new Map(fences.map((fence) => [fence.attemptId, fence])).values()]

const soonest = (a: number | null, b: number | null): number | null => (a === null ? b : b === null ? a : Math.min(a, b))

const NOTHING_TAKEN: Taking = { gates: [], claims: [], more: false, at: null, waitMs: null }
const NOT_QUEUED = { taken: [], more: false, waitMs: null, settled: false }
const NONE = { taken: [], more: false }
const NOTHING_CLOSED: Closed = { runs: [], started: [], rows: 0, woken: false }
