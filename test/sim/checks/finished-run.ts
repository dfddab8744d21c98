// Compares a closed run with the model: every status must follow from the rules, the attempt log and the requests of users.

import { isDeepStrictEqual } from "node:util"
import type { Json } from "../../../src/core/values/json.ts"
import type { RunRecord, TaskRecord } from "../database/table-reader.ts"
import type { ExpressionScope, SimNode, SimWorkflow } from "../scenario/workflows.ts"
import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"
import { checkRunCounters } from "./counters.ts"
import { hasTimedOut } from "./group-timeouts.ts"
import { evaluateRule, hasFinished, hookEvents, isAllowedFailure, isUnsuccessful, lastIndex, outcomeOf } from "./model.ts"
import { explainWrongWait } from "./waiting-tasks.ts"

/** Processes that are down, slow calls and attempts that do not stop at once take less than this. */
const MAX_CANCEL_MS = 5 * 60_000

export const checkFinishedRun = (simulation: Simulation, run: RunRecord): void => new FinishedRun(simulation, run).check()

class FinishedRun {
  readonly #simulation: Simulation
  readonly #run: RunRecord
  readonly #label: string
  readonly #workflow: SimWorkflow
  readonly #rows: TaskRecord[]

  constructor(simulation: Simulation, run: RunRecord) {
    this.#simulation = simulation
    this.#run = run
    this.#label = simulation.labelOf(run.id)
    this.#workflow = simulation.workflowOf(run.workflow)
    this.#rows = simulation.tables.tasksOf(run.seq)
  }

  check(): void {
    for (const row of this.#rows) if (!hasFinished(row)) this.#fail(row, "its run has closed")
    this.#checkStatus()
    this.#checkCancelDelay()
    this.#checkHooks()
    checkRunCounters(this.#simulation, this.#run, this.#rows)
    for (const row of this.#rows) this.#checkPastAttempts(row)
    // A user or the timeout of the run may have stopped it: then tasks may be cancelled.
    const mayBeCancelled = this.#simulation.mayBeStopped(this.#run)
    for (const row of this.#rows) if (row.parent_id === null && row.hook === 0) this.#checkTask(row, mayBeCancelled)
  }

  #describe(row: TaskRecord): string {
    return `${this.#label}/${this.#workflow.nodes[row.node]!.node.name}[${row.path}]`
  }

  #fail(row: TaskRecord, why: string): never {
    throw new Violation(
      "tasks finish as the rules say",
      `${this.#describe(row)} is ${row.status}${row.error === null ? "" : ` (${row.error})`}: ${why}`,
    )
  }

  // -- the run ---------------------------------------------------------------------------------------------------------------------

  #checkStatus(): void {
    const { status, error, id } = this.#run
    const hasFailed = this.#rows.some(
      (row) =>
        row.parent_id === null &&
        row.hook === 0 &&
        row.status === "failed" &&
        !isAllowedFailure(row, this.#workflow.nodes[row.node]!),
    )
    const isCancelled = this.#simulation.commitLog.cancelled.has(id)
    const isTimeout = error?.startsWith("timed out") ?? false
    const allowed = isTimeout
      ? isCancelled
        ? ["failed", "cancelled"]
        : ["failed"]
      : isCancelled
        ? ["cancelled"]
        : [hasFailed ? "failed" : "success"]
    if (!allowed.includes(status)) {
      const facts = `${isCancelled ? "cancelled by a user" : "not cancelled"}, a task failed: ${hasFailed}, ${error ?? "no error"}`
      throw new Violation("runs close as the rules say", `${this.#label} is ${status}: ${facts}`)
    }
    if (this.#rows.length === 0 && status !== "cancelled" && this.#workflow.nodes.length > 0) {
      throw new Violation("runs close as the rules say", `${this.#label} is ${status} and never started`)
    }
  }

  /** A cancelled run closes soon, however long its tasks would have waited. */
  #checkCancelDelay(): void {
    const { commitLog, scenario } = this.#simulation
    const cancelledAt = commitLog.cancelled.get(this.#run.id)
    const delayMs = cancelledAt === undefined ? 0 : Date.parse(this.#run.finished_at!) - cancelledAt
    if (delayMs <= MAX_CANCEL_MS || scenario.clockSteps.length > 0) return
    throw new Violation("a cancelled run closes soon", `${this.#label} took ${delayMs / 1000} s`)
  }

  #checkHooks(): void {
    const events = hookEvents(this.#run.status)
    const expected = this.#workflow.nodes
      .filter(({ node }) => node.hook !== null && events.includes(node.hook))
      .map(({ index }) => index)
    const hooks = this.#rows.filter((row) => row.hook === 1)
    const nodes = hooks.map((row) => row.node).toSorted((a, b) => a - b)
    if (!isDeepStrictEqual(nodes, expected)) {
      const found = `${this.#label} is ${this.#run.status} with hooks ${nodes.join(" ")}`
      throw new Violation("hooks match the status of their run", found)
    }
    for (const row of hooks) {
      if (row.status === "success" || row.status === "failed") this.#checkLastAttempt(row)
      else this.#fail(row, "a hook runs in any case")
    }
  }

  #checkPastAttempts(row: TaskRecord): void {
    const numbers = this.#simulation.tables.attempts(row.id).map(({ attempt }) => attempt)
    const past = row.attempt_id === null ? row.attempt : row.attempt - 1
    if (
      isDeepStrictEqual(
        numbers,
        Array.from({ length: past }, (_, i) => i + 1),
      )
    )
      return
    const found = `${this.#describe(row)} at attempt ${row.attempt} has the past attempts ${numbers.join(" ")}`
    throw new Violation("every attempt is stored", found)
  }

  // -- tasks -----------------------------------------------------------------------------------------------------------------------

  #checkTask(row: TaskRecord, mayBeCancelled: boolean): void {
    const simNode = this.#workflow.nodes[row.node]!
    const { model } = this.#simulation
    if (this.#simulation.isKept(this.#run.id, row.id)) return
    if (row.status === "cancelled") {
      if (!mayBeCancelled) this.#fail(row, "nobody stopped the run")
      return
    }
    const upstream = model
      .upstream(this.#workflow, this.#run, simNode, row.path)
      .map((up) => outcomeOf(up, this.#workflow.nodes[up.node]!))
    const decision = evaluateRule(simNode.node.rule, upstream)
    if (decision !== "run") return this.#checkNotRun(row, "skipped", decision, `${simNode.node.rule} gives ${decision}`)
    if (simNode.condition !== null && !simNode.condition.perInstance) {
      const condition = simNode.condition.evaluate(model.expressionScope(this.#workflow, this.#run, simNode, row.path))
      if (condition === false) return this.#checkNotRun(row, "skipped", "waived", "its if is false")
      if (condition === "error") return this.#checkNotRun(row, "failed", null, "its if cannot be evaluated")
    }
    if (row.status === "skipped") this.#fail(row, "no rule skips it")
    if (simNode.items === null) this.#checkSingle(row, mayBeCancelled)
    else this.#checkFanOut(row, simNode, mayBeCancelled)
  }

  #checkNotRun(row: TaskRecord, status: "skipped" | "failed", skipReason: string | null, why: string): void {
    if (row.status !== status || row.skip_reason !== skipReason) this.#fail(row, why)
    const { launches } = this.#simulation.attemptLog.history(this.#run.id, row.node, row.path)
    if (row.status === "skipped" && launches.length > 0) this.#fail(row, "it was launched")
  }

  #checkSingle(row: TaskRecord, mayBeCancelled: boolean): void {
    if (row.kind === "group") this.#checkGroup(row, mayBeCancelled)
    else this.#checkLastAttempt(row)
  }

  /** A group has all of its tasks, each finished by the rules, and fails when one of them fails. */
  #checkGroup(row: TaskRecord, mayBeCancelled: boolean): void {
    const children = this.#simulation.tables.childrenOf(row.id)
    const isTimedOut = hasTimedOut(this.#simulation, row)
    if (!isTimedOut && row.error?.startsWith("timed out") === true) this.#fail(row, "its timeout has not passed")
    const expected = this.#workflow.nodes.filter(({ node }) => node.group === row.node).map(({ index }) => index)
    const found = children.map(({ node }) => node).toSorted((a, b) => a - b)
    if (!mayBeCancelled && !isDeepStrictEqual(found, expected)) this.#fail(row, `it has the tasks ${found.join(" ")}`)
    for (const child of children) {
      if (child.path !== row.path) this.#fail(child, `its group is at [${row.path}]`)
      this.#checkTask(child, mayBeCancelled || isTimedOut)
    }
    this.#checkContainerStatus(row, children)
  }

  #checkFanOut(row: TaskRecord, simNode: SimNode, mayBeCancelled: boolean): void {
    const { tables, model } = this.#simulation
    const instances = tables.childrenOf(row.id)
    const items = simNode.items!(model.expressionScope(this.#workflow, this.#run, simNode, row.path))
    if (items === "error") {
      if (row.status !== "failed" || instances.length > 0) this.#fail(row, "it has no list of items")
      return
    }
    const isCutShort = mayBeCancelled && instances.length < items.length
    const paths = new Set(instances.map((instance) => instance.path))
    if (!isCutShort && (instances.length !== items.length || paths.size !== items.length)) {
      this.#fail(row, `it has ${instances.length} instances, not ${items.length}`)
    }
    for (const instance of instances) {
      const item = instance.item === null ? null : (JSON.parse(instance.item) as Json)
      if (!isDeepStrictEqual(item, items[lastIndex(instance.path)])) this.#fail(instance, `its item is ${instance.item}`)
      this.#checkInstance(instance, simNode, mayBeCancelled)
    }
    this.#checkContainerStatus(row, instances)
  }

  #checkInstance(instance: TaskRecord, simNode: SimNode, mayBeCancelled: boolean): void {
    if (this.#simulation.isKept(this.#run.id, instance.id)) return
    if (instance.status === "cancelled") {
      if (!mayBeCancelled) this.#fail(instance, "nobody stopped the run")
      return
    }
    const scope = (): ExpressionScope =>
      this.#simulation.model.expressionScope(this.#workflow, this.#run, simNode, instance.path)
    const condition = simNode.condition?.perInstance ? simNode.condition.evaluate(scope()) : true
    if ((instance.status === "skipped") !== (condition === false)) this.#fail(instance, `its if is ${condition}`)
    if (condition === true) this.#checkSingle(instance, mayBeCancelled)
  }

  #checkContainerStatus(row: TaskRecord, children: TaskRecord[]): void {
    const hasFailed = children.some((child) => isUnsuccessful(child, this.#workflow.nodes[child.node]!))
    if (row.status !== (hasFailed ? "failed" : "success")) this.#fail(row, `a child failed: ${hasFailed}`)
  }

  /** A task that was run finishes as its last attempt did. */
  #checkLastAttempt(row: TaskRecord): void {
    const simNode = this.#workflow.nodes[row.node]!
    const { attemptLog, model } = this.#simulation
    if (row.status === "success" && row.attempt_id === null) return this.#checkCachedOutput(row, simNode)
    const last = attemptLog.history(this.#run.id, row.node, row.path).applied.at(-1)
    if (last === undefined || last.kind !== "finish" || last.id !== row.attempt_id) this.#fail(row, "no attempt ended so")
    if (this.#workflow.program !== undefined) this.#simulation.functions.checkEnd(this.#run, row)
    if (simNode.waitPlan !== null) {
      const wrong = explainWrongWait(this.#simulation, simNode, row, last)
      if (wrong !== null) this.#fail(row, wrong)
      return
    }
    if (last.state === "success" && !isDeepStrictEqual(model.output(row), this.#simulation.reportedOutput(last.id))) {
      this.#fail(row, "its output is not the one that the task reported")
    }
    if ((last.state === "success") !== (row.status === "success")) this.#fail(row, `its last attempt was ${last.state}`)
  }

  #checkCachedOutput(row: TaskRecord, simNode: SimNode): void {
    if (simNode.node.cache === undefined) this.#fail(row, "it was not run")
    const reported = this.#simulation.reportedOutputs(this.#workflow, simNode)
    if (!reported.has(JSON.stringify(this.#simulation.model.output(row))))
      this.#fail(row, "no attempt reported its cached output")
  }
}
