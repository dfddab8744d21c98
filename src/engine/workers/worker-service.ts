// Where workers are served: they register, claim by long poll, and say how their attempts went, through any server. All that counts
// is in the store; what is kept here are open polls, and facts that can be read again.
//
// A worker has one claim under way at a time and says what it knows: attempts that it was given but does not know (an answer got
// lost on its way) go back, attempts that are others' by now it is told to drop.

import { messageOf } from "../../core/model/error-message.ts"
import { attemptToken, isAttemptToken, isTokenOf, newWorkerSecrets } from "./credentials.ts"
import { type Claimed, NOTHING, type ClaimPoll, ClaimPolls, type Serve } from "./claim-polls.ts"
import { AttemptReports } from "./attempt-reports.ts"
import { WorkerLogs } from "./worker-logs.ts"
import { remoteAssignment } from "./remote-assignment.ts"
import type { Engine } from "../engine.ts"
import { AssignmentBuilder, isTaskFault } from "../attempts/assignment-builder.ts"
import type { EngineOptions } from "../ports.ts"
import type { Fence } from "../../core/model/change.ts"
import { type AttemptId, type HolderId, newHolderId, type RunId } from "../../core/model/ids.ts"
import { lanesOf, type WorkerCapabilities } from "../../core/routing/capabilities.ts"
import { runEnded } from "../../core/model/status.ts"
import type * as wire from "../../protocol/api/workers.ts"
import type { Frame } from "../../protocol/wire/log-frames.ts"
import { Conflict } from "../../store/contract/errors.ts"
import type { Claim } from "../../store/contract/store.ts"
import type { z } from "zod"

const LEASE_MS = 15_000
/** Looked for the dead so much after a lease has run out. */
const SLACK_MS = 50
const REMEMBERED = 1000

export interface WorkerServiceOptions {
  engine: Pick<Engine, "claimFor" | "report" | "reap">
  parts: EngineOptions
  /** 15 s; shorter in tests. */
  leaseMs?: number
}

export interface RegisteredWorker {
  id: HolderId
  name: string
  lanes: string[]
  stored: string
}

export type FencedToken = Fence & { token: string }

export class WorkerService {
  readonly #engine: WorkerServiceOptions["engine"]
  readonly #parts: EngineOptions
  readonly #leaseMs: number
  readonly #inputs: AssignmentBuilder
  readonly #reports: AttemptReports
  readonly #logs: WorkerLogs
  readonly #polls: ClaimPolls
  readonly #known = new Map<HolderId, RegisteredWorker>()
  readonly #expiries = new Map<HolderId, () => void>()

  constructor({ engine, parts, leaseMs = LEASE_MS }: WorkerServiceOptions) {
    this.#engine = engine
    this.#parts = parts
    this.#leaseMs = leaseMs
    this.#inputs = new AssignmentBuilder(parts)
    this.#logs = new WorkerLogs(parts.objects, parts.log)
    this.#reports = new AttemptReports(engine, parts, this.#inputs, (prefix) => this.#logs.ended(prefix))
    this.#polls = new ClaimPolls(parts, (poll) => this.#serve(poll))
  }

  /** Workers that were there before this server. */
  async start(): Promise<void> {
    for (const { id, kind, dead } of await this.#parts.store.listHolders()) {
      if (kind === "worker" && !dead) this.#expect(id)
    }
  }

  /** Open polls are answered; workers go elsewhere. */
  stop(): void {
    for (const cancel of this.#expiries.values()) cancel()
    this.#expiries.clear()
    this.#polls.close()
  }

  /** Something was committed: there may be work. `all`: something may have to be stopped. */
  wake(all = false): void {
    this.#polls.wake(all)
  }

  async register(body: z.output<typeof wire.newWorker>): Promise<z.output<typeof wire.registered>> {
    const { store, clock, random, log } = this.#parts
    const { name, queues, labels, handlers, functions, functions_only: functionsOnly, capacity, version = "" } = body
    const id = newHolderId(clock.now(), random.hex128())
    const { token, stored } = newWorkerSecrets(id, random)
    const calls = { functions, ...(functionsOnly && { functionsOnly }) }
    const serves: WorkerCapabilities = { queues, labels: [...new Set(labels)], handlers, ...calls, capacity, version }
    const holder = { id, kind: "worker", name, process: "", runId: null, leaseMs: this.#leaseMs } as const
    await store.registerHolder({ ...holder, capabilities: serves, tokenHash: stored })
    this.#expect(id)
    log.info({ worker: name, id, queues, labels, capacity }, "a worker has come")
    return { id, token, lease_ms: this.#leaseMs, heartbeat_ms: Math.ceil(this.#leaseMs / 5) }
  }

  /** The worker that shows this token; null: it was given up on, or never was. Throws on a wrong token. */
  async authenticate(id: HolderId, token: string): Promise<HolderId | null | "wrong"> {
    const stored = await this.#parts.store.workerToken(id)
    if (stored === null) return null
    return isTokenOf(stored, token) ? id : "wrong"
  }

  async heartbeat(id: HolderId): Promise<z.output<typeof wire.heartbeat>> {
    const { store } = this.#parts
    if (!(await store.renewLease(id, this.#leaseMs))) throw gone(id)
    this.#expect(id)
    const held = await store.listInFlight(id)
    return { stop: stopsAmong(held, () => true) }
  }

  async claim(id: HolderId, body: z.output<typeof wire.claimBody>, signal: AbortSignal): Promise<Claimed> {
    const worker = await this.#worker(id)
    const first = await this.#reconcile(worker, body)
    if (first !== null || body.wait_ms === 0 || signal.aborted) return first ?? NOTHING
    return this.#polls.add({ worker, free: body.free, stopping: new Set(body.stopping) }, body.wait_ms, signal)
  }

  /** Gives the attempts that were refused. */
  async report(id: HolderId, body: z.output<typeof wire.reportBody>): Promise<string[]> {
    const { stored } = await this.#worker(id)
    return this.#reports.take(body, (entry) => isAttemptToken(stored, entry.attempt_id, entry.token))
  }

  async appendLogs(id: HolderId, frames: readonly Frame[]): Promise<z.output<typeof wire.logReply>["logs"]> {
    const { stored } = await this.#worker(id)
    const answers: { attempt_id: string; next: number | null }[] = []
    for (const frame of frames) {
      const proven = isAttemptToken(stored, frame.attempt_id, frame.token)
      const place = proven ? await this.#reports.placeOf(fenceOf(frame)) : null
      const next = place === null ? null : await this.#logs.append(place.prefix, frame)
      answers.push({ attempt_id: frame.attempt_id, next })
    }
    return answers
  }

  /** null: the attempt is another's. Throws when it is larger than an output may be. */
  async putOutput(id: HolderId, fence: FencedToken, data: AsyncIterable<Uint8Array>): Promise<number | null> {
    const place = await this.#proven(id, fence)
    if (place === null) return null
    const { bytes } = await this.#parts.objects.putStream(place.outputKey, atMost(this.#parts.maxOutputBytes, data))
    return bytes
  }

  /** An upstream output, whole, in pieces; null: there is none for this attempt. */
  async upstream(id: HolderId, fence: FencedToken, task: string): Promise<AsyncIterable<Uint8Array> | null> {
    const place = await this.#proven(id, fence)
    if (place === null || place.claim.kind === "job") return null
    for (const [index, { output }] of place.claim.reads) {
      if (place.workflow.nodes[index]!.name !== task || output === null) continue
      return "inline" in output ? once(JSON.stringify(output.inline)) : this.#pieces(output.key)
    }
    return null
  }

  /** It has nothing left, or somebody wants it gone. */
  async leave(id: HolderId): Promise<void> {
    const { store, log } = this.#parts
    this.#expiries.get(id)?.()
    this.#expiries.delete(id)
    this.#known.delete(id)
    await store.deregisterHolder(id)
    log.info({ id }, "a worker has left")
    await this.#engine.reap()
  }

  async #proven(id: HolderId, fence: FencedToken): ReturnType<AttemptReports["placeOf"]> {
    const { stored } = await this.#worker(id)
    return isAttemptToken(stored, fence.attemptId, fence.token) ? this.#reports.placeOf(fence) : null
  }

  async *#pieces(key: string): AsyncGenerator<Uint8Array> {
    for (let at = 0; ;) {
      const piece = await this.#parts.objects.getRange(key, at, at + (1 << 20))
      if (piece === null) throw new Error(`the output ${key} is gone from the object store`)
      if (piece.byteLength === 0) return
      yield piece
      at += piece.byteLength
    }
  }

  /** What the worker must hear before it is given anything. */
  async #reconcile(worker: RegisteredWorker, body: z.output<typeof wire.claimBody>): Promise<Claimed | null> {
    const { store } = this.#parts
    const ended = await this.#endedOf(body.runs)
    const { over } = ended
    if (body.known === undefined) return over.length > 0 ? { ...NOTHING, ...ended } : null
    const known = new Set<string>(body.known)
    const held = await store.listInFlight(worker.id)
    const unknown = held.filter(({ attemptId }) => !known.has(attemptId))
    if (unknown.length > 0) await this.#release(unknown)
    const holds = new Set<string>(held.map(({ attemptId }) => attemptId))
    const lost = body.known.filter((attemptId) => !holds.has(attemptId))
    const stopping = new Set(body.stopping)
    const stop = stopsAmong(held, (attemptId) => known.has(attemptId) && !stopping.has(attemptId))
    return over.length + lost.length + stop.length > 0 ? { assignments: [], stop, lost, ...ended } : null
  }

  /** Of these runs: those that have ended, and among them those that are there no more. */
  async #endedOf(runs: readonly string[]): Promise<Pick<Claimed, "over" | "gone">> {
    const over: string[] = []
    const gone: string[] = []
    for (const runId of runs) {
      const run = await this.#parts.store.getRun(runId as RunId)
      if (run === null) gone.push(runId)
      if (run === null || (runEnded(run.status) && run.hooksPending === 0)) over.push(runId)
    }
    return { over, ...(gone.length > 0 && { gone }) }
  }

  /** Claims for a poll, and says when there may be more. */
  async #serve(poll: ClaimPoll): ReturnType<Serve> {
    const { worker, free } = poll
    const advanced = await this.#engine.claimFor(worker.id, { lanes: worker.lanes, limit: free })
    const { claims, cancelling, cancelRequested, more, nextDueMs } = advanced
    const told = cancelling.length + cancelRequested.length > 0
    const stop = told ? stopsAmong(await this.#parts.store.listInFlight(worker.id), (id) => !poll.stopping.has(id)) : []
    if (claims.length + stop.length > 0) {
      this.#answer(poll, claims, stop).catch(async (error: unknown) => {
        poll.refuse(error instanceof Error ? error : new Error(String(error)))
        await this.#release(claims).catch(() => {})
      })
    }
    const nothing = claims.length === 0 && free > 0
    // One that was given up on gets nothing either, but that says nothing of the lanes.
    const dead = nothing && (await this.#parts.store.workerToken(worker.id)) === null
    if (dead) poll.refuse(gone(worker.id))
    return { empty: nothing && !dead, more, nextDueMs }
  }

  async #answer(poll: ClaimPoll, claims: readonly Claim[], stop: Claimed["stop"]): Promise<void> {
    poll.busy = true
    const assignments: Claimed["assignments"] = []
    for (const claim of claims) {
      const made = await this.#assign(poll.worker, claim)
      if (made !== null) assignments.push(made)
    }
    if (!poll.settle({ ...NOTHING, assignments, stop })) await this.#release(claims).catch(() => {})
  }

  async #assign(worker: RegisteredWorker, claim: Claim): Promise<Claimed["assignments"][number] | null> {
    try {
      const made = await remoteAssignment(this.#inputs, this.#parts, claim)
      this.#reports.remember(claim)
      return { ...made, token: attemptToken(worker.stored, claim.attemptId) }
    } catch (error) {
      const fault = isTaskFault(error)
      const told = fault ? error.message : `could not prepare the task: ${messageOf(error)}`
      await this.#reports.fail(claim, told, !fault)
      return null
    }
  }

  async #release(claims: readonly Fence[]): Promise<void> {
    await this.#engine.report(claims.map(({ row, attemptId }) => ({ row, attemptId, kind: "release" })))
  }

  async #worker(id: HolderId): Promise<RegisteredWorker> {
    const known = this.#known.get(id)
    if (known !== undefined) return known
    const { store } = this.#parts
    const stored = await store.workerToken(id)
    const row = stored === null ? undefined : (await store.listHolders()).find((holder) => holder.id === id)
    if (stored === null || row === undefined || row.capabilities === null) throw gone(id)
    const worker = { id, name: row.name, lanes: lanesOf(row.capabilities), stored }
    this.#known.set(id, worker)
    if (this.#known.size > REMEMBERED) this.#known.delete(this.#known.keys().next().value!)
    return worker
  }

  /** Looks for the dead when this worker has not been heard of for a lease. */
  #expect(id: HolderId): void {
    this.#expiries.get(id)?.()
    const cancel = this.#parts.clock.after(this.#leaseMs + SLACK_MS, () => {
      this.#expiries.delete(id)
      this.#known.delete(id)
      void this.#engine.reap()
    })
    this.#expiries.set(id, cancel)
  }
}

export class OutputTooLarge extends Error {
  constructor(max: number) {
    super(`an output has at most ${max} bytes (ORK_MAX_OUTPUT)`)
  }
}

const gone = (id: HolderId): Conflict => new Conflict(`the worker ${id} was given up on, or has left: register again`)

const fenceOf = ({ row, attempt_id }: { row: number; attempt_id: string }): Fence => ({
  row,
  attemptId: attempt_id as AttemptId,
})

const stopsAmong = (
  held: Awaited<ReturnType<EngineOptions["store"]["listInFlight"]>>,
  wanted: (attemptId: string) => boolean,
): Claimed["stop"] =>
  held.flatMap(({ attemptId, stop }) => (stop !== null && wanted(attemptId) ? [{ attempt_id: attemptId, reason: stop }] : []))

async function* once(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}

async function* atMost(max: number, data: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const piece of data) {
    bytes += piece.byteLength
    if (bytes > max) throw new OutputTooLarge(max)
    yield piece
  }
}
