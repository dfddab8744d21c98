// The attempts that this engine runs: builds the assignment of a claim, runs it, and submits the change that ends it. Every attempt ends
// with exactly one result.

import { type AssignmentBuilder } from "./assignment-builder.ts"
import { sleep } from "../../sleep.ts"
import { AttemptRunner, type AttemptListener, missingExecutor, type RunnerOptions, StopSignal } from "./attempt-runner.ts"
import type { ChangeBuilder } from "./change-builder.ts"
import { cancellingOf, nodeOf, runOrJobIdOf } from "./claims.ts"
import { type OutputReader, outputProblem } from "./outputs.ts"
import { ProgressThrottle } from "./progress-throttle.ts"
import { isTaskFault } from "./task-failure.ts"
import type { EngineOptions, Folders } from "../ports.ts"
import { type AttemptResult, type Change, type Fence, fenceOf } from "../../core/model/change.ts"
import { messageOf } from "../../core/values/error-message.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { Assignment, Progress, StopReason } from "../../executors/executor.ts"
import { storeArtifacts } from "../../objects/artifacts/store-artifacts.ts"
import { UnusableBundle } from "../../objects/bundles/bundles.ts"
import type { CancelReason, Claim } from "../../store/contract/store.ts"

const PREPARE_RETRY_MS = 2000
const READ_RETRY_MS = 1000

const STATE_BY_STOP = { cancel: "cancelled", timeout: "timeout", shutdown: "lost", lost: "lost" } as const

interface AttemptParts {
  assignments: AssignmentBuilder
  folders: Folders
  outputs: OutputReader
  changes: ChangeBuilder
  submit(change: Change): void
  /** Submits a change; resolves after its commit with whether the store applied it. */
  commit(change: Change): Promise<boolean>
}

export class Attempts {
  readonly #options: EngineOptions
  readonly #parts: AttemptParts
  readonly #runner: AttemptRunner
  readonly #folderless: Folders
  readonly #launched = new Map<string, LaunchedAttempt>()
  /** Numbers of attempts that have not ended. One that was adopted from this engine itself counts beside its earlier launch. */
  #local = 0
  #remote = 0

  constructor(options: EngineOptions, parts: AttemptParts) {
    this.#options = options
    this.#parts = parts
    const { executors, clock, evaluator, objects } = options
    this.#folderless = withoutWorkingDir(parts.folders)
    const { outputs } = parts
    const checkOutput: RunnerOptions["checkOutput"] = (schema, output) => outputProblem({ outputs, evaluator }, schema, output)
    const storeArtifactsOf: RunnerOptions["storeArtifacts"] = (assignment) => storeArtifacts(objects, assignment)
    this.#runner = new AttemptRunner({ executors, clock, checkOutput, storeArtifacts: storeArtifactsOf })
  }

  get size(): number {
    return this.#local + this.#remote
  }

  /** Number of attempts whose work runs elsewhere. */
  get remote(): number {
    return this.#remote
  }

  has(attemptId: string): boolean {
    return this.#launched.has(attemptId)
  }

  /** Runs a committed claim to its end. `adopted`: another server has launched it before. */
  async launch(claim: Claim, adopted?: Assignment["adopted"]): Promise<void> {
    const attempt = new LaunchedAttempt(claim, this.#options, adopted)
    this.#launched.set(claim.attemptId, attempt)
    this.#count(attempt, 1)
    const cancelling = cancellingOf(claim)
    if (cancelling !== null) attempt.stop(cancelling)
    let change: Change | null
    let suspended = false
    try {
      const result = await this.#run(attempt)
      suspended = result.suspended !== undefined
      const toChange = attempt.leftRunning && result.state === "lost" ? null : this.#toChange(attempt, result)
      change = toChange instanceof Promise ? await toChange : toChange
    } finally {
      if (this.#launched.get(claim.attemptId) === attempt) this.#launched.delete(claim.attemptId)
      this.#count(attempt, -1)
    }
    if (change === null) return
    if (change.kind === "finish" && mayEndOwner(attempt)) change.ends = endedBy(attempt)
    const executor = this.#options.executors.get(attempt.node.executor)
    if (suspended) await this.#suspend(change)
    else if (executor?.committed === undefined) this.#parts.submit(change)
    else executor.committed(claim.attemptId, this.#parts.commit(change))
  }

  /**
   * Commits the suspension of a function. The store rejects it when the run is being cancelled: the function then runs again and learns
   * of it.
   */
  async #suspend(change: Change): Promise<void> {
    // A commit that never comes rejects: the engine stops.
    if (await this.#parts.commit(change).catch(() => true)) return
    // A row that waits was suspended by an earlier commit, whose reply was lost: it goes on when it is resumed.
    for (const claim of await this.#readClaims({ row: change.row, attemptId: change.attemptId }))
      if (claim.kind !== "job" && claim.wait === null) await this.launch(claim)
  }

  /** Reads the claim of an attempt that has not ended, as soon as the store can be read. */
  async #readClaims(fence: Fence): Promise<Claim[]> {
    const { store, clock, log } = this.#options
    for (;;) {
      try {
        return await store.readClaims([fence])
      } catch (error) {
        log.warn({ attemptId: fence.attemptId, error: messageOf(error) }, "failed to read a suspended function; trying again")
        await sleep(clock, READ_RETRY_MS)
      }
    }
  }

  #count({ remote }: LaunchedAttempt, by: 1 | -1): void {
    if (remote) this.#remote += by
    else this.#local += by
  }

  /** Fails the attempt when its result cannot be processed, so that it is counted and retried after its delay. */
  #toChange({ claim, cancelling }: LaunchedAttempt, result: AttemptResult): Change | Promise<Change> {
    const { changes } = this.#parts
    const failed = (error: unknown): Change => {
      const failure = this.#runner.failed(`its result could not be processed: ${messageOf(error)}`, true)
      return changes.decide(claim, { ...failure, startedAt: result.startedAt }, cancelling)
    }
    try {
      const change = changes.toChange(claim, result, cancelling)
      return change instanceof Promise ? change.catch(failed) : change
    } catch (error) {
      return failed(error)
    }
  }

  /**
   * Stops the attempts of a run that is being cancelled, which are not retried. Hooks go on: they run after the cancel, and this reply of
   * the store may arrive after a later one.
   */
  cancelRun(runSeq: number, reason: CancelReason): void {
    for (const attempt of this.#launched.values()) {
      const { claim, node } = attempt
      if (claim.kind !== "job" && claim.runSeq === runSeq && node.hook === null) attempt.cancel(reason)
    }
  }

  /** Stops an attempt whose job was cancelled or deleted, or whose group is overdue. */
  cancel(attemptId: string): void {
    this.#launched.get(attemptId)?.cancel("cancel")
  }

  /** Stops an attempt whose fence is lost: another holder owns the task now. */
  lose(attemptId: string): void {
    this.#launched.get(attemptId)?.stop("lost")
  }

  /** Stops all attempts, at shutdown or because the lease is lost. Remote work is left running for the server that adopts it. */
  stopAll(reason: Extract<StopReason, "shutdown" | "lost">): void {
    for (const attempt of this.#launched.values()) {
      attempt.leftRunning = attempt.remote
      attempt.stop(reason)
    }
  }

  async #run(attempt: LaunchedAttempt): Promise<AttemptResult> {
    const { node } = attempt
    if (!this.#options.executors.has(node.executor)) return this.#runner.failed(missingExecutor(node), false)
    let assignment: Assignment
    try {
      const prepared = attempt.adopted === undefined ? this.#prepare(attempt) : this.#prepareAdopted(attempt)
      assignment = prepared instanceof Promise ? await prepared : prepared
    } catch (error) {
      if (attempt.leftRunning) return { state: "lost", startedAt: null, finishedAt: this.#options.clock.now() }
      return attempt.adopted === undefined ? this.#unprepared(error) : await this.#stopUnprepared(attempt, error)
    }
    Object.assign(assignment.env, this.#options.observer?.environment?.(attempt.claim))
    if (attempt.adopted !== undefined) assignment.adopted = attempt.adopted
    const reports = new AttemptReports(attempt.claim, this.#options.clock, this.#parts.submit)
    // It never rejects.
    const result = await this.#runner.run(assignment, attempt, reports)
    reports.stop()
    return result
  }

  #prepare({ claim, workflow, node }: LaunchedAttempt): Assignment | Promise<Assignment> {
    const { assignments, folders } = this.#parts
    const folderless = this.#options.executors.get(node.executor)?.folderless === true && node.workingDir === undefined
    return assignments.build(claim, workflow, node, folderless ? this.#folderless : folders)
  }

  #unprepared(error: unknown): AttemptResult {
    if (isTaskFault(error)) return this.#runner.failed(error.message, false)
    return this.#runner.failed(`could not prepare the task: ${messageOf(error)}`, true)
  }

  /** Tries again until the attempt is stopped or its time is over: its work may run, and would run beside a retry. */
  async #prepareAdopted(attempt: LaunchedAttempt): Promise<Assignment> {
    const { clock, log } = this.#options
    const overdueAt = overdueAtOf(attempt, clock.now())
    for (;;) {
      try {
        return await this.#prepare(attempt)
      } catch (error) {
        if (clock.now() >= overdueAt) attempt.stop("timeout")
        if (isTaskFault(error) || error instanceof UnusableBundle || attempt.reason !== null) throw error
        const fields = { attemptId: attempt.claim.attemptId, error: messageOf(error) }
        log.warn(fields, "an attempt of another server cannot be prepared; trying again")
        await sleep(clock, PREPARE_RETRY_MS)
      }
    }
  }

  /** Ends an adopted attempt that cannot be prepared because of `error`, after its work has ended. */
  async #stopUnprepared(attempt: LaunchedAttempt, error: unknown): Promise<AttemptResult> {
    const { clock, executors, log, objects } = this.#options
    const { claim, workflow, node, reason } = attempt
    const assignment = await this.#parts.assignments.buildStop(claim, workflow, node)
    attempt.stop("cancel")
    await executors
      .get(node.executor)!
      .launch({ ...assignment, adopted: attempt.adopted! }, { signal: attempt.signal, started: () => {}, progress: () => {} })
    if (hasSecrets(node)) {
      // The values are unknown, so the log that was read at the end could contain them.
      await objects.deletePrefix(assignment.prefix).catch((cause: unknown) => {
        log.warn({ attemptId: claim.attemptId, error: messageOf(cause) }, "failed to delete the log of a stopped attempt")
      })
    }
    const base = { startedAt: attempt.adopted!.startedAt, finishedAt: clock.now() }
    if (reason === null) return { ...this.#unprepared(error), ...base }
    const end = reason === "timeout" ? "timed out" : "stopped"
    return { ...base, state: STATE_BY_STOP[reason], error: `${end}; the task could not be prepared: ${messageOf(error)}` }
  }
}

/** Submits what an attempt reports while it runs. */
class AttemptReports implements AttemptListener {
  readonly #claim: Claim
  readonly #clock: Clock
  readonly #submit: (change: Change) => void
  /** Created by the first progress: most attempts report none. */
  #progress: ProgressThrottle | null = null

  constructor(claim: Claim, clock: Clock, submit: (change: Change) => void) {
    this.#claim = claim
    this.#clock = clock
    this.#submit = submit
  }

  started({ at, externalId }: Parameters<AttemptListener["started"]>[0]): void {
    this.#submit({ ...fenceOf(this.#claim), kind: "started", at, ...(externalId !== undefined && { externalId }) })
  }

  progress(update: Progress): void {
    this.#progress ??= new ProgressThrottle(this.#clock, ({ fraction = null, details = null }) =>
      this.#submit({ ...fenceOf(this.#claim), kind: "progress", fraction, details }),
    )
    this.#progress.report(update)
  }

  /** Drops progress that was not submitted: the attempt has ended. */
  stop(): void {
    this.#progress?.stop()
  }
}

/** Returns the job or run that ends with the attempt, and the task whose output is its result. */
const endedBy = ({ claim, node, workflow }: LaunchedAttempt): { id: string; task: string | null } => ({
  id: runOrJobIdOf(claim),
  task: claim.kind === "job" || workflow.anyParams === true ? null : node.name,
})

/** Tells whether the attempt is of a job, or of a task outside of groups and fan-outs after which no task of its run follows. */
const mayEndOwner = ({ claim, node }: LaunchedAttempt): boolean =>
  claim.kind === "job" || (claim.path === "" && node.downstream.length === 0 && node.hook === null && node.group === null)

/** Returns folders that create none to work in. */
const withoutWorkingDir = (folders: Folders): Folders => ({
  workingDir: () => ({ baseDir: "/", workingDir: "/" }),
  code: (claim, bundle) => folders.code(claim, bundle),
  upstream: (claim, outputs) => folders.upstream(claim, outputs),
  artifacts: async () => "/",
})

/** Returns the time of day at which an adopted attempt times out. The time until its start counts from `now`. */
const overdueAtOf = ({ node, adopted }: LaunchedAttempt, now: number): number =>
  adopted?.startedAt == null
    ? now + (node.startTimeoutMs ?? Number.POSITIVE_INFINITY)
    : adopted.startedAt + (node.timeoutMs ?? Number.POSITIVE_INFINITY)

const hasSecrets = ({ env, secretFields = [] }: Node): boolean =>
  secretFields.length > 0 || Object.values(env).some((value) => "secret" in value)

class LaunchedAttempt extends StopSignal {
  readonly claim: Claim
  readonly workflow: CompiledWorkflow
  readonly node: Node
  /** The work runs elsewhere and uses no slot of this machine. */
  readonly remote: boolean
  readonly adopted: Assignment["adopted"]
  cancelling: boolean
  /** Another server adopts the work, or this one under a new id: the attempt ends here without a change unless its work has ended. */
  leftRunning = false

  constructor(claim: Claim, { store, executors }: EngineOptions, adopted: Assignment["adopted"]) {
    super()
    this.adopted = adopted
    const { workflow, node } = nodeOf(store, claim)
    this.claim = claim
    this.workflow = workflow
    this.node = node
    this.remote = executors.get(node.executor)?.remote === true
    this.cancelling = cancellingOf(claim) !== null
  }

  cancel(reason: CancelReason): void {
    if (this.cancelling) return
    this.cancelling = true
    this.stop(reason)
  }
}
