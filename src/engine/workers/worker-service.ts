// Server side of the worker protocol: workers register, claim by long poll and report results, through any server. All state is in the
// store; this process keeps open polls and caches.
//
// A worker has one request in flight that claims, a poll or a report, and its polls list the attempts that it knows. Attempts in flight
// that it does not know are released (the response that contained them was lost); attempts that it knows but no longer owns are returned
// as `lost`.

import { type ClaimReply, ClaimPolls, type ClaimPoll, NOTHING, type Served } from "./claim-polls.ts"
import { sleep } from "../../sleep.ts"
import { attemptToken, isAttemptToken } from "./credentials.ts"
import { AttemptFiles } from "./attempt-files.ts"
import { AttemptReports } from "./attempt-reports.ts"
import { buildRemoteAssignment } from "./remote-assignment.ts"
import { WorkerLogs } from "./worker-logs.ts"
import { evictedError, type RegisteredWorker, WorkerRegistry } from "./worker-registry.ts"
import { AssignmentBuilder } from "../attempts/assignment-builder.ts"
import { ChangeBuilder } from "../attempts/change-builder.ts"
import { OutputReader } from "../attempts/outputs.ts"
import { isTaskFault } from "../attempts/task-failure.ts"
import type { Engine } from "../engine.ts"
import type { EngineOptions } from "../ports.ts"
import { Callbacks } from "../attempts/callbacks.ts"
import type { Fence } from "../../core/model/change.ts"
import { asError, messageOf } from "../../core/values/error-message.ts"
import type { HolderId, RunId } from "../../core/model/ids.ts"
import { isRunClosed } from "../../core/model/status.ts"
import { WORKER_LEASE_MS } from "../../core/settings/leases.ts"
import type * as wire from "../../protocol/api/workers.ts"
import type { Claim, InFlightAttempt, NewLeaseHolder } from "../../store/contract/store.ts"
import type { z } from "zod"

export interface WorkerServiceOptions {
  engine: Pick<Engine, "claimFor" | "report" | "reap">
  parts: EngineOptions
  /** Length of a worker's lease. Default: 10 s. */
  leaseMs?: number
}

export class WorkerService {
  readonly files: AttemptFiles
  readonly #engine: WorkerServiceOptions["engine"]
  readonly #options: EngineOptions
  readonly #registry: WorkerRegistry
  readonly #assignments: AssignmentBuilder
  readonly #reports: AttemptReports
  readonly #polls: ClaimPolls

  constructor({ engine, parts, leaseMs = WORKER_LEASE_MS }: WorkerServiceOptions) {
    const outputs = new OutputReader(parts.objects)
    this.#engine = engine
    this.#options = parts
    this.#registry = new WorkerRegistry({ ...parts, leaseMs, reap: () => void engine.reap() })
    this.#assignments = new AssignmentBuilder(parts, outputs, new Callbacks(parts))
    const logs = new WorkerLogs(parts.objects, parts.log)
    this.#reports = new AttemptReports({
      ...parts,
      engine,
      changes: new ChangeBuilder(parts, outputs),
      ended: (prefix) => logs.ended(prefix),
    })
    this.files = new AttemptFiles({ ...parts, registry: this.#registry, attempts: this.#reports, logs })
    this.#polls = new ClaimPolls(parts, (poll) => this.#serve(poll))
  }

  async start(): Promise<void> {
    await this.#registry.start()
  }

  /** Responds to open polls with nothing; their workers turn to another server. */
  stop(): void {
    this.#registry.stop()
    this.#polls.close()
  }

  /**
   * Serves the polls after a commit that may have made work ready. `all`: it may also have cancelled attempts, so polls without free
   * slots are served too.
   */
  wake(all = false): void {
    this.#polls.wake(all)
  }

  /**
   * Registers a worker. `key`: the API key of the caller; the worker is evicted when its secret is no longer valid. null: the server's
   * own key.
   */
  register(body: z.output<typeof wire.newWorker>, key: NewLeaseHolder["key"]): Promise<z.output<typeof wire.registeredWorker>> {
    return this.#registry.register(body, key)
  }

  async heartbeat(id: HolderId): Promise<z.output<typeof wire.heartbeat>> {
    await this.#registry.renew(id)
    return { stop: stopRequests(await this.#options.store.listInFlight(id), () => true) }
  }

  /** Removes a worker that has nothing in flight, or that an administrator removes. */
  async leave(id: HolderId): Promise<void> {
    await this.#registry.remove(id)
    await this.#engine.reap()
  }

  /** Gives the attempts of evicted workers to others, and ends their polls. */
  async reap(): Promise<void> {
    await this.#engine.reap()
    this.#polls.wake(true)
  }

  // -- claims ----------------------------------------------------------------------------------------------------------------------

  async claim(id: HolderId, body: z.output<typeof wire.claimBody>, signal: AbortSignal): Promise<ClaimReply> {
    const worker = await this.#registry.get(id)
    const first = await this.#reconcile(worker, body)
    if (first !== null || body.wait_ms === 0 || signal.aborted) return first ?? NOTHING
    return this.#polls.add({ worker, free: body.free, stopping: new Set(body.stopping) }, body.wait_ms, signal)
  }

  /** Compares what the worker knows with the store. Returns null when the worker is up to date. */
  async #reconcile(worker: RegisteredWorker, body: z.output<typeof wire.claimBody>): Promise<ClaimReply | null> {
    const ended = await this.#endedAmong(body.runs)
    const { closed } = ended
    if (body.known === undefined) return closed.length > 0 ? { ...NOTHING, ...ended } : null
    const known = new Set<string>(body.known)
    const inFlight = await this.#options.store.listInFlight(worker.id)
    const unknown = inFlight.filter(({ attemptId }) => !known.has(attemptId))
    if (unknown.length > 0) await this.#release(unknown)
    const owned = new Set<string>(inFlight.map(({ attemptId }) => attemptId))
    const lost = body.known.filter((attemptId) => !owned.has(attemptId))
    const stopping = new Set(body.stopping)
    const stop = stopRequests(inFlight, (attemptId) => known.has(attemptId) && !stopping.has(attemptId))
    return closed.length + lost.length + stop.length > 0 ? { assignments: [], stop, lost, ...ended } : null
  }

  /** Returns which of the runs have ended, and which of these were removed. */
  async #endedAmong(runs: readonly string[]): Promise<Pick<ClaimReply, "closed" | "gone">> {
    const closed: string[] = []
    const gone: string[] = []
    for (const runId of runs) {
      const run = await this.#options.store.getRun(runId as RunId)
      if (run === null) gone.push(runId)
      if (run === null || (isRunClosed(run.status) && run.hooksPending === 0)) closed.push(runId)
    }
    return { closed, ...(gone.length > 0 && { gone }) }
  }

  /** Claims work for an open poll. */
  async #serve(poll: ClaimPoll): Promise<Served> {
    const { worker, free } = poll
    const advanced = await this.#engine.claimFor(worker.id, { lanes: worker.lanes, maxClaims: free })
    const { claims, cancelling, stopRequests: mustEnd, more, nextDueMs } = advanced
    const cancels = cancelling.length + mustEnd.length > 0
    const inFlight = cancels ? await this.#options.store.listInFlight(worker.id) : []
    const stop = stopRequests(inFlight, (id) => !poll.stopping.has(id))
    if (claims.length + stop.length > 0) {
      this.#respond(poll, claims, stop).catch(async (error: unknown) => {
        poll.reject(asError(error))
        await this.#release(claims).catch(() => {})
      })
    }
    const nothing = claims.length === 0 && free > 0
    // An evicted worker gets nothing either, but its lanes may have work for others.
    const evicted = nothing && (await this.#registry.isEvicted(worker.id))
    if (evicted) poll.reject(evictedError(worker.id))
    return { empty: nothing && !evicted, more, nextDueMs }
  }

  async #respond(poll: ClaimPoll, claims: readonly Claim[], stop: ClaimReply["stop"]): Promise<void> {
    poll.busy = true
    const assignments = await this.#assignAll(poll.worker, claims)
    if (!poll.respond({ ...NOTHING, assignments, stop })) await this.#release(claims).catch(() => {})
  }

  // -- reports ---------------------------------------------------------------------------------------------------------------------

  /**
   * Commits what a worker reports, and claims up to `free` tasks for it. Returns null when the fence of no reported attempt held;
   * claims are released then, and when the worker has disconnected.
   */
  async report(
    id: HolderId,
    body: z.output<typeof wire.reportBody>,
    signal: AbortSignal,
  ): Promise<z.output<typeof wire.reportReply> | null> {
    const { free } = body
    const worker = await this.#registry.get(id)
    const { rejected, allRejected, claims } = await this.#commitAndClaim(worker, body)
    const assignments = allRejected ? [] : await this.#assignAll(worker, claims)
    const isReleased = allRejected || signal.aborted
    if (isReleased && claims.length > 0) await this.#release(claims).catch(() => {})
    if (allRejected) return null
    return free === 0 ? { refused: rejected } : { refused: rejected, assignments: isReleased ? [] : assignments }
  }

  async #commitAndClaim(worker: RegisteredWorker, body: z.output<typeof wire.reportBody>): Promise<ReportOutcome> {
    const { entries, free } = body
    const isAuthentic = (entry: (typeof entries)[number]): boolean =>
      isAttemptToken(worker.stored, entry.attempt_id, entry.token)
    let claiming: Promise<readonly Claim[]> = Promise.resolve([])
    const rejected = await this.#reports.report(body, isAuthentic, () => {
      if (free > 0) claiming = this.#claimBehind(worker, free)
    })
    const allRejected = rejected.length === new Set(entries.map((entry) => entry.attempt_id)).size
    const claims = await claiming
    if (claims.length > 0 || free === 0 || allRejected) return { rejected, allRejected, claims }
    // The report may have made work ready after the claim was committed.
    return { rejected, allRejected, claims: await this.#claimNow(worker, free) }
  }

  /** Claims after the changes that were just submitted, in the same transaction if the store groups its writes. */
  async #claimBehind(worker: RegisteredWorker, free: number): Promise<readonly Claim[]> {
    await sleep(this.#options.clock, 0)
    return this.#claimNow(worker, free)
  }

  /** Claims work for the response to a report. A failure only means that the worker polls next. */
  async #claimNow(worker: RegisteredWorker, free: number): Promise<readonly Claim[]> {
    try {
      const { claims, more } = await this.#engine.claimFor(worker.id, { lanes: worker.lanes, maxClaims: free })
      if (more) this.#polls.wake(false)
      return claims
    } catch (error) {
      this.#options.log.warn({ worker: worker.id, error: messageOf(error) }, "failed to claim work with a report")
      return []
    }
  }

  // -- assignments -----------------------------------------------------------------------------------------------------------------

  async #assignAll(worker: RegisteredWorker, claims: readonly Claim[]): Promise<ClaimReply["assignments"]> {
    const assignments: ClaimReply["assignments"] = []
    for (const claim of claims) {
      const assignment = await this.#assign(worker, claim)
      if (assignment !== null) assignments.push(assignment)
    }
    return assignments
  }

  /** Returns the assignment of a claim. A claim whose assignment cannot be built fails: null. */
  async #assign(worker: RegisteredWorker, claim: Claim): Promise<ClaimReply["assignments"][number] | null> {
    try {
      const assignment = await buildRemoteAssignment(this.#assignments, this.#options, claim)
      this.#reports.remember(claim)
      return { ...assignment, token: attemptToken(worker.stored, claim.attemptId) }
    } catch (error) {
      const isFault = isTaskFault(error)
      const message = isFault ? error.message : `could not prepare the task: ${messageOf(error)}`
      await this.#reports.fail(claim, message, !isFault)
      return null
    }
  }

  async #release(fences: readonly Fence[]): Promise<void> {
    await this.#engine.report(fences.map(({ row, attemptId }) => ({ row, attemptId, kind: "release" })))
  }
}

interface ReportOutcome {
  /** Attempts whose entries were rejected. */
  rejected: string[]
  allRejected: boolean
  claims: readonly Claim[]
}

const stopRequests = (inFlight: readonly InFlightAttempt[], isWanted: (attemptId: string) => boolean): ClaimReply["stop"] =>
  inFlight.flatMap(({ attemptId, stop }) =>
    stop !== null && isWanted(attemptId) ? [{ attempt_id: attemptId, reason: stop }] : [],
  )
