// Answers from outside to tasks that wait: of people to an approval, of other services to a callback. Answered when they are
// committed; the fence lets one of several count.

import { approvalOutput } from "./approvals.ts"
import type { Callbacks } from "./callbacks.ts"
import { nodeOf } from "../attempts/claims.ts"
import type { EngineOptions } from "../ports.ts"
import type { WaitResult, WaitingTasks } from "./waiting-tasks.ts"
import type { Change, Fence } from "../../core/model/change.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { Json } from "../../core/model/json.ts"
import { iso } from "../../core/model/ports.ts"
import type { WaitKind } from "../../core/model/waiting-on.ts"
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

export class ExternalSignals {
  readonly #options: Pick<EngineOptions, "store" | "clock">
  readonly #waiting: WaitingTasks
  readonly #callbacks: Callbacks
  readonly #report: (changes: Change[]) => Promise<Fence[]>

  constructor(
    options: Pick<EngineOptions, "store" | "clock">,
    waiting: WaitingTasks,
    callbacks: Callbacks,
    report: (changes: Change[]) => Promise<Fence[]>,
  ) {
    this.#options = options
    this.#waiting = waiting
    this.#callbacks = callbacks
    this.#report = report
  }

  async approval({ runId, name, path, approved, comment, by }: ApprovalSignal): Promise<void> {
    const { store, clock } = this.#options
    const task = await store.getTask({ runId, name, path })
    const what = `task ${path === "" ? name : `${name}[${path}]`} of run ${runId}`
    if (task === null) throw new NotFound(`there is no ${what}`)
    const claim = await this.#claim(task, "approval")
    if (claim === null) throw new Conflict(`${what} does not wait for approval: it ${stateOf(task)}`)
    const output = approvalOutput({ approved, comment, by, at: iso(clock.now()) })
    const said = comment === null || comment === "" ? `rejected by ${by}` : comment
    const ended: WaitResult = approved
      ? { state: "success", output }
      : { state: "failed", error: said, output, retryable: false }
    if (!(await this.#end(claim, ended))) throw new Conflict(`${what} was answered by somebody else just now`)
  }

  async callback(token: string, answer: CallbackSignal): Promise<void> {
    const { store } = this.#options
    const fence = await this.#callbacks.read(token)
    if (fence === null) throw new NotFound("there is no such callback")
    const [claim] = await store.readClaims([fence])
    if (claim === undefined) throw new Conflict("the attempt of this callback has ended already")
    if (claim.kind === "job" || claim.waitingOn?.for.kind !== "callback")
      throw new Conflict("the attempt of this callback is not waiting yet; try again")
    const ended: WaitResult =
      answer.status === "success"
        ? { state: "success", output: answer.output ?? null }
        : { state: "failed", error: answer.error ?? "failed, as its callback said" }
    if (!(await this.#end(claim, ended))) throw new Conflict("the attempt of this callback has ended already")
  }

  async #claim(task: TaskRow, kind: WaitKind): Promise<TaskClaim | null> {
    if (task.attemptId === null || task.waitingOn?.kind !== kind) return null
    const [claim] = await this.#options.store.readClaims([{ row: task.row, attemptId: task.attemptId }])
    return claim !== undefined && claim.kind !== "job" && claim.waitingOn?.for.kind === kind ? claim : null
  }

  /** False: it was over meanwhile. */
  async #end(claim: TaskClaim, ended: WaitResult): Promise<boolean> {
    await this.#options.store.compiled(claim.versionId)
    const { node } = nodeOf(this.#options.store, claim)
    return (await this.#report([await this.#waiting.toChange(claim, node, ended)])).length === 0
  }
}

const stateOf = ({ status, finishedAt }: TaskRow): string =>
  finishedAt === null ? `is ${status}` : status === "failed" ? "has failed" : `has ended as ${status}`
