// One turn of the loop in one transaction. What does not depend on an answer travels together: BEGIN, locks, changes, claims and
// the look at timers go out at once; what the claims need, and COMMIT, follow at once. Only a batch that meets limits, cancels,
// timers or ends of runs takes more round trips, inside the same transaction; and a small plain one takes a single one (relay.ts).

import { soonest } from "../../../core/time/soonest.ts"
import type { Fence } from "../../../core/model/change.ts"
import { wildcardFunctions } from "../../../core/routing/lanes.ts"
import { NO_RUN } from "../../shared/event-codec.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { Advanced, Batch, Claim, StoreEvent } from "../../contract/store.ts"
import { cancelPending } from "./cancel-pending.ts"
import { Changes, type Task } from "./changes.ts"
import type { ClaimedRow } from "../claim/claimed-row.ts"
import { type Closed, closeRuns } from "./close-runs.ts"
import { logEvents } from "./event-log.ts"
import { emitCancelled, emitClaims, emitClosed, emitChanges } from "./events.ts"
import { cancelOverdue, withDeadlines } from "./group-deadlines.ts"
import { findHeld } from "./find-in-flight.ts"
import { coalesceChanges, type AttemptChanges } from "./coalesce-changes.ts"
import type { StoreClock } from "../connection/store-clock.ts"
import { emitReleased } from "../jobs/edges.ts"
import { lockJobs, finishJobs } from "./job-changes.ts"
import { type FinishedTask, type InFlightAttempt, type Cache, cacheableResults } from "../cache/cache.ts"
import { loadRuns, toClaims, toTaskClaims } from "../claim/to-claims.ts"
import { NOTIFY } from "../connection/listener.ts"
import type { Claimer } from "../claim/claim-unblocked.ts"
import { legOf, relay } from "./relay.ts"
import { pipelined, type SqlRunner } from "../connection/connection.ts"
import { FenceLost } from "./finish-successes.ts"
import { NOTHING_TAKEN, Takes, type Taking } from "../claim/claims.ts"
import { type PendingWork, pollPendingWork, runTimers } from "./timers.ts"
import type { ConnectionPool, Transaction } from "../connection/connection-pool.ts"
import { claimResumed } from "./waiting.ts"
import type { Workflows } from "../admin/workflows.ts"

/** What others do without saying so (a retry that they set, a server that died) is seen this late at most. */
const LOOK_EVERY_MS = 25

/** What makes a relay fail mostly lasts, as a queue with limits does. */
const REST_MS = 10_000

export interface LoopDeps {
  sessions: ConnectionPool
  workflows: Workflows
  memory: Cache
  instants: StoreClock
  /** Names this store among those that listen, and where they listen. */
  channel: string
  self: string
  /** Whether others' notes arrive: if not, every turn looks for what they did. */
  listening(): boolean
}

export class Loop {
  readonly #deps: LoopDeps
  readonly #takes: Takes
  /** Timers or cancels that the last look saw come before the claims of the next turn. */
  #slow = true
  /** There was something for the gate when it was last asked, or since: the next turn asks for it at once. */
  #gated = true
  /** The lanes in which the last turn left nothing to claim; null: it may have left something. */
  #emptied: string | null = null
  /** Until then turns are of the usual kind, since a relay has failed. */
  #relaysFrom = 0
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
    this.#takes = new Takes(deps.instants)
  }

  async advance(batch: Batch): Promise<Advanced> {
    const folded = coalesceChanges(batch.changes)
    this.busy = true
    try {
      const turn = (await this.#relay(batch, folded)) ?? (await this.#transact(batch, folded))
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

  #transact(batch: Batch, folded: Folded): Promise<Turn> {
    const { sessions } = this.#deps
    return sessions
      .transaction((tx) => this.#turn(tx, batch, folded, false))
      .catch((error: unknown) => {
        if (!(error instanceof FenceLost)) throw error
        this.#stale = true
        return sessions.transaction((tx) => this.#turn(tx, batch, folded, true))
      })
  }

  /** The whole turn in one round trip, where nothing but these ends is to be seen to. */
  async #relay(batch: Batch, { steps, refused }: Folded): Promise<Turn | null> {
    const { instants, memory, workflows, sessions } = this.#deps
    const now = instants.localNow()
    if (this.#slow || this.#gated || this.#takes.general || refused.length > 0) return null
    if (this.#emptied !== batch.claim.lanes.join() || now >= this.#dueAt || now < this.#relaysFrom || !this.#fresh(batch))
      return null
    const leg = legOf(workflows, memory, batch, steps)
    if (leg === null) return null
    const relayed = await relay(this.#deps, batch, leg)
    if (relayed === null) {
      this.#relaysFrom = now + REST_MS
      return null
    }
    const { taken, events, gates, more } = relayed
    const ends = cacheableResults(leg.ends)
    const claims = await sessions.use((session) =>
      toClaims(session, { memory, workflows, fresh: ends, now: instants.now() }, taken),
    )
    return {
      tasks: leg.tasks,
      changed: new Map(steps.map((step) => [step, null])),
      ends,
      rows: new Map(taken.map((row) => [row.id, row])),
      looked: false,
      slow: false,
      gated: gates,
      due: null,
      advanced: {
        rejected: [],
        gates: [],
        claims,
        cancelling: [],
        cancelRequested: [],
        closed: [],
        events,
        more: more || (gates && batch.gate.limit > 0),
        nextDueMs: inFull(this.#due()),
      },
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
  #knows(changes: Changes, batch: Batch): boolean {
    return changes.plain && this.#fresh(batch)
  }

  #fresh({ gate }: Batch): boolean {
    const age = this.#deps.instants.localNow() - this.#lookedAt
    // The clock may have been set back.
    const fresh = age >= 0 && age < LOOK_EVERY_MS && gate.lanes.join() === this.#lookedFor
    return fresh && !this.#stale && this.#deps.listening()
  }

  /** Who takes what becomes ready, where claims go the short way. */
  #taker({ holder, claim }: Batch): Claimer | null {
    const short = claim.limit > 0 && !this.#takes.general && wildcardFunctions(claim.lanes).length === 0
    return short ? { holder, ...claim, ids: this.#deps.instants.newAttemptIds() } : null
  }

  #due(): number | null {
    return this.#dueAt === Number.POSITIVE_INFINITY ? null : this.#dueAt - this.#deps.instants.localNow()
  }

  async #turn(tx: Transaction, batch: Batch, { steps, refused }: Folded, careful: boolean): Promise<Turn> {
    const { workflows, instants, memory } = this.#deps
    const now = instants.now()
    const { tasks: found, lost } = await findHeld(tx, memory, steps)
    const known = await lockJobs(tx, found, instants.localNow())
    await workflows.load(known.flatMap(({ held }) => (isJobRow(held.runSeq) ? [] : held.versionId)))
    const { tasks, overdue } = await withDeadlines(tx, workflows, known, instants.localNow())
    const changes = new Changes(tasks, careful)
    const slow = this.#slow || changes.limited || overdue.size > 0 || instants.localNow() >= this.#dueAt
    const timers = async (): Promise<number> => {
      const { ready: made, groups } = await runTimers(tx, now, workflows)
      for (const group of groups) overdue.add(group)
      return made
    }

    const locked = changes.lock(tx)
    let ready = slow ? await timers() : 0
    const changing = pipelined(changes.apply(tx, now, workflows, batch.gate.lanes, slow ? null : this.#taker(batch)))
    if (slow) await changing
    const woken = slow ? await claimResumed(tx, halfOf(batch), now) : []
    const early = slow ? null : this.#takes.send(tx, batch, now, { gates: this.#gated, shared: true })
    const skip = !slow && this.#knows(changes, batch) && early?.claim !== null
    if (!skip) this.#stale = false
    const looking = skip ? null : pipelined(pollPendingWork(tx, now, batch))
    await locked
    const changed = await changing
    const released = await finishJobs(tx, now, tasks, changed)
    ready += changed.ready + released.ready.length
    let taking: Taking =
      early === null ? NOTHING_TAKEN : await this.#takes.read(tx, lessWork(batch, changed.onward.length), early, now)
    if (changed.onward.length > 0) taking = { ...taking, claims: [...changed.onward, ...taking.claims] }
    const done = changed.done.length > 0
    let seen: PendingWork =
      looking !== null
        ? await looking
        : done
          ? await pollPendingWork(tx, now, batch)
          : { now: taking.at!, due: this.#due(), gates: changed.gates, cancelling: [], stopped: [] }

    const late = !slow && seen.due !== null && seen.due <= 0
    if (late) {
      ready += await timers()
      const wish = { ...halfOf(batch), limit: Math.min(halfOf(batch).limit, batch.gate.limit - taking.gates.length) }
      woken.push(...(await claimResumed(tx, wish, now)))
      seen = await pollPendingWork(tx, now, batch)
    }
    const cancelling = seen.cancelling.map(({ runSeq }) => runSeq)
    const cancelled = cancelling.length === 0 ? null : await cancelPending(tx, now, workflows, cancelling)
    const expired = overdue.size === 0 ? null : await cancelOverdue(tx, now, overdue)
    const ended = [...(cancelled?.rows ?? []), ...(expired?.rows ?? [])]
    for (const row of ended) if (row.was_ready) changed.freed.addChances(row.limits)
    const over = [...new Set([...changed.done, ...cancelling])]
    const closed = over.length === 0 ? NOTHING_CLOSED : await closeRuns(tx, now, workflows, over)
    const unparked = changed.freed.any ? await changed.freed.apply(tx) : 0
    // Others may have something to stop, or to gather.
    ready += unparked + closed.rows + (expired === null ? 0 : 1)
    const forGate = seen.gates && early?.gate === null
    const freed = changed.queueFreed || released.ready.length + unparked + closed.rows > 0
    if (slow || late || cancelled !== null || expired !== null || forGate || freed || this.#takes.general)
      taking = await this.#takes.more(tx, batch, taking, now)
    if (cancelled !== null || expired !== null || changed.timed || late || closed.woken || closed.started.length > 0)
      seen = await pollPendingWork(tx, now, batch)

    taking = { ...taking, gates: [...woken, ...taking.gates] }

    const events: StoreEvent[] = []
    const told = { workflows, at: seen.now, events }
    emitChanges(told, tasks, changed)
    events.push(...emitReleased(released, seen.now))
    if (ended.length > 0) {
      const runs = await loadRuns(
        tx,
        memory,
        ended.map((row) => row.run_seq),
      )
      emitCancelled(told, ended, runs)
    }
    emitClosed(told, closed)
    await workflows.load([...taking.gates, ...taking.claims].flatMap((row) => (isJobRow(row.run_seq) ? [] : row.version_id)))
    emitClaims(told, taking.claims)
    const logged = logEvents(tx, now, events)
    const ends = cacheableResults(changes.ends(changed.applied))
    // Of what was made ready, something is left for others; or it may be, where more was listed than is counted.
    const own = [...taking.gates, ...taking.claims].filter(({ fresh }) => fresh === true).length
    const others = changes.limited || cancelled !== null || expired !== null || taking.unparked
    const notified = ready > own || (others && own > 0) ? this.#notify(tx) : null
    const source = { memory, workflows, fresh: ends, now }
    const gates = pipelined(toTaskClaims(tx, source, taking.gates))
    const claims = pipelined(toClaims(tx, source, taking.claims))
    void tx.commit()
    await logged
    await notified
    const taken = { gates: await gates, claims: await claims }
    const settled = new Set(tasks.flatMap(({ step }) => (changed.applied.has(step) && step.final ? step.fence.attemptId : [])))
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
        rejected: once([...refused, ...lost, ...changed.refused]),
        ...taken,
        cancelling: open.filter(({ held }) => held).map(({ runSeq, reason }) => ({ runSeq, reason })),
        cancelRequested: seen.stopped.filter((attemptId) => !settled.has(attemptId)),
        closed: closed.runs.map(({ runSeq, runId, status }) => ({ runSeq, runId, status })),
        events,
        more: taking.more || isDue || (cancelled?.full ?? false) || (expired?.full ?? false),
        nextDueMs: soonest(inFull(seen.due), taking.waitMs),
      },
    }
  }

  #notify(tx: SqlRunner): Promise<unknown> {
    return tx.run(NOTIFY, [this.#deps.channel, this.#deps.self])
  }

  /** After the commit: what is held now, and what the next turn must look at first. */
  #remember({ tasks, changed, advanced, ends, rows, looked, slow, gated, due }: Turn, batch: Batch): void {
    const { memory } = this.#deps
    this.#slow = slow
    this.#gated = gated
    const { claim } = batch
    this.#emptied = advanced.more || advanced.claims.length >= claim.limit ? null : claim.lanes.join()
    if (looked) {
      this.#lookedAt = this.#deps.instants.localNow()
      this.#lookedFor = batch.gate.lanes.join()
      this.#dueAt = due === null ? Number.POSITIVE_INFINITY : this.#deps.instants.localNow() + due
    }
    for (const [place, end] of ends) memory.finished.set(place, end)
    for (const { held, step } of tasks) {
      if (!changed.has(step) || step.final !== null) memory.inFlight.delete(held.attemptId)
      else memory.inFlight.set(held.attemptId, { ...held, started: held.started || step.start !== null })
    }
    const remember = (claim: Claim, gate: boolean): void =>
      memory.inFlight.set(claim.attemptId, heldOf(claim, rows.get(claim.row)!, gate))
    for (const claim of advanced.gates) remember(claim, true)
    for (const claim of advanced.claims) remember(claim, false)
  }
}

type Folded = ReturnType<typeof coalesceChanges>

interface Turn {
  tasks: Task[]
  changed: ReadonlyMap<AttemptChanges, unknown>
  ends: ReadonlyMap<string, FinishedTask>
  rows: ReadonlyMap<number, ClaimedRow>
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

/** Returns what the cache keeps of a claimed row. A job's row has none of a run's values. */
const heldOf = (claim: Claim, row: ClaimedRow, gate: boolean): InFlightAttempt => {
  const { attemptId, attempt } = claim
  const { lane, limits, node, path, kind } = row
  const held = {
    row: row.id,
    attemptId,
    runSeq: row.run_seq,
    workflowId: row.workflow_id,
    attempt,
    lane,
    limits,
    node,
    path,
    kind,
    gate,
  }
  if (claim.kind === "job")
    return { ...held, runId: NO_RUN, private: false, rootRunId: null, versionId: 0, generation: 0, priority: 0, started: false }
  const { runId, versionId, run } = claim
  const ofRun = { private: run.private, rootRunId: run.rootRunId, priority: run.priority, generation: row.generation }
  return { ...held, runId, versionId, ...ofRun, started: claim.waitingOn !== null }
}

const lessWork = (batch: Batch, taken: number): Batch => ({
  ...batch,
  claim: { ...batch.claim, limit: batch.claim.limit - taken },
})

const once = (fences: Fence[]): Fence[] => [...new Map(fences.map((fence) => [fence.attemptId, fence])).values()]

const inFull = (ms: number | null): number | null => (ms === null ? null : Math.max(0, Math.ceil(ms)))

const NOTHING_CLOSED: Closed = { runs: [], started: [], rows: 0, woken: false }
