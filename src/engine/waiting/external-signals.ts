// Signals from outside to tasks that wait: answers of people to an approval, and callbacks of other services. A call returns after its
// commit; of several signals to one attempt, the fence lets exactly one apply.

import type { Callbacks } from "../attempts/callbacks.ts"
import { approvalResult, type WaitingTasks, type WaitResult } from "./waiting-tasks.ts"
import { answerFunction } from "./function-approvals.ts"
import { nodeOf } from "../attempts/claims.ts"
import { readForMasking } from "../attempts/secret.ts"
import type { EngineOptions } from "../ports.ts"
import type { Change, Fence } from "../../core/model/change.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { Json } from "../../core/values/json.ts"
import { iso } from "../../core/model/ports.ts"
import type { WaitKind } from "../../core/model/waiting-on.ts"
import { maskJson, maskText } from "../../objects/mask.ts"
import { takeAuditEntry } from "../../store/contract/audit-scope.ts"
import { Conflict, NotFound } from "../../store/contract/errors.ts"
import type { TaskClaim, TaskRow } from "../../store/contract/store.ts"

export interface ApprovalSignal {
  runId: RunId
  name: string
  path: string
  approved: boolean
  comment: string | null
  by: string
}

export interface CallbackSignal {
  status: "success" | "failed"
  output?: Json
  error?: string
}

interface SignalOptions extends Pick<EngineOptions, "store" | "clock" | "secret" | "log"> {
  wake(): void
  waiting: Pick<WaitingTasks, "toChange">
  callbacks: Pick<Callbacks, "read">
  /** Commits changes and returns the fences that no longer held. */
  report(changes: Change[]): Promise<Fence[]>
}

export class ExternalSignals {
  readonly #options: SignalOptions

  constructor(options: SignalOptions) {
    this.#options = options
  }

  /** Answers a task that waits for approval, or a step of a durable function. */
  async approval(answer: ApprovalSignal): Promise<void> {
    const { store, clock, wake } = this.#options
    if (await answerFunction(this.#options, answer).finally(wake)) return
    const { runId, name, path, approved, comment, by } = answer
    const task = await store.getTask({ runId, name, path })
    const what = `task ${path === "" ? name : `${name}[${path}]`} of run ${runId}`
    if (task === null) throw new NotFound(`there is no ${what}`)
    const claim = await this.#waitingClaim(task, "approval")
    if (claim === null) throw new Conflict(`${what} does not wait for approval: it ${stateOf(task)}`)
    const error = comment === null || comment === "" ? `rejected by ${by}` : comment
    const result = approvalResult({ approved, comment, by, at: iso(clock.now()) }, error)
    if (!(await this.#finish(claim, result))) throw new Conflict(`${what} was answered by somebody else just now`)
  }

  /** Returns whether a token is signed by this store. Its attempt may have ended. */
  async isCallbackToken(token: string): Promise<boolean> {
    return (await this.#options.callbacks.read(token)) !== null
  }

  async callback(token: string, { status, output = null, error }: CallbackSignal): Promise<void> {
    const { store, callbacks } = this.#options
    const fence = await callbacks.read(token)
    if (fence === null) throw new NotFound("there is no such callback")
    const [claim] = await store.readClaims([fence])
    if (claim === undefined) throw new Conflict("the attempt of this callback has ended already")
    if (claim.kind === "job" || claim.wait?.on.kind !== "callback") {
      throw new Conflict("the attempt of this callback is not waiting yet; try again")
    }
    const result: WaitResult =
      status === "success"
        ? { state: "success", output }
        : { state: "failed", error: error ?? "the callback reported a failure" }
    if (!(await this.#finish(claim, await this.#mask(claim, result))))
      throw new Conflict("the attempt of this callback has ended already")
  }

  async #waitingClaim(task: TaskRow, kind: WaitKind): Promise<TaskClaim | null> {
    if (task.attemptId === null || task.waitingOn?.kind !== kind) return null
    const [claim] = await this.#options.store.readClaims([{ row: task.row, attemptId: task.attemptId }])
    return claim !== undefined && claim.kind !== "job" && claim.wait?.on.kind === kind ? claim : null
  }

  /** Masks the task's secrets: the service that calls back may have received them. */
  async #mask(claim: TaskClaim, { output, error, ...rest }: WaitResult): Promise<WaitResult> {
    await this.#options.store.getVersion(claim.versionId)
    const secrets = await readForMasking(this.#options, nodeOf(this.#options.store, claim).node)
    return {
      ...rest,
      ...(output !== undefined && { output: maskJson(output, secrets) }),
      ...(error !== undefined && { error: maskText(error, secrets) }),
    }
  }

  /** Returns false when the attempt has ended meanwhile. */
  async #finish(claim: TaskClaim, result: WaitResult): Promise<boolean> {
    const { store, waiting, report } = this.#options
    await store.getVersion(claim.versionId)
    const { node } = nodeOf(store, claim)
    const change = await waiting.toChange(claim, node, result)
    const entry = takeAuditEntry()?.(true) ?? null
    const rejected = await report([entry === null ? change : { ...change, auditEntry: entry }])
    return rejected.length === 0
  }
}

const stateOf = ({ status, finishedAt }: TaskRow): string =>
  finishedAt === null ? `is ${status}` : status === "failed" ? "has failed" : `has ended as ${status}`
