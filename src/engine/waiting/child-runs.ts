// Sub-workflows: creates the child run of a task, once per attempt, and reads its result. The end of the child run resumes the task.

import { cancelRun } from "./cancel-run.ts"
import { nodeOf } from "../attempts/claims.ts"
import { buildScope } from "../attempts/expression-scope.ts"
import { joinOutputs, type Member } from "../attempts/joined-outputs.ts"
import { type OutputReader, outputKey } from "../attempts/outputs.ts"
import { TaskFailure } from "../attempts/task-failure.ts"
import type { EngineOptions } from "../ports.ts"
import type { WaitStep } from "./waiting-tasks.ts"
import type { Output } from "../../core/model/change.ts"
import { newRunId, type RunId } from "../../core/model/ids.ts"
import type { JsonObject } from "../../core/values/json.ts"
import { bindParams } from "../../core/rules/runs/params.ts"
import { isRunClosed } from "../../core/model/status.ts"
import { MAX_SUBWORKFLOW_DEPTH, type WaitingOn } from "../../core/model/waiting-on.ts"
import { type Node, rootNodes } from "../../core/model/workflow.ts"
import type { NewRun, RunRow, TaskClaim } from "../../store/contract/store.ts"

type WorkflowWait = Extract<WaitingOn, { kind: "workflow" }>

export class ChildRuns {
  readonly #options: EngineOptions
  readonly #outputs: OutputReader

  constructor(options: EngineOptions, outputs: OutputReader) {
    this.#options = options
    this.#outputs = outputs
  }

  /** Chooses the id of the child run in advance, so that repeated creation yields one run. */
  begin(workflow: string): WorkflowWait {
    const { clock, random } = this.#options
    return { kind: "workflow", workflow, runId: newRunId(clock.now(), random.hex128()) }
  }

  /** Creates the child run if it does not exist, or returns its result once it has ended. */
  async check(claim: TaskClaim, node: Node, waitingOn: WorkflowWait): Promise<WaitStep> {
    const { workflow, runId } = waitingOn
    const waitForEnd: WaitStep = { waitingOn: { ...waitingOn, made: true }, delayMs: null }
    const child = await this.#options.store.getRun(runId as RunId)
    if (child === null) {
      if (waitingOn.made) return { result: { state: "failed", error: `run ${runId} of ${workflow} is gone` } }
      await this.#create(claim, node, waitingOn)
      return waitForEnd
    }
    if (!isRunClosed(child.status)) return waitForEnd
    const what = `run ${child.id} of workflow ${workflow}`
    switch (child.status) {
      case "success":
        return { result: { state: "success", stored: await this.#joinOutputs(claim, node, child) } }
      case "cancelled":
        return { result: { state: "cancelled", error: `${what} was cancelled` } }
      default:
        return { result: { state: "failed", error: `${what} failed: ${child.error ?? "no reason is known"}` } }
    }
  }

  /** Requests the cancellation of the child run. Returns true when it has ended or does not exist. */
  async cancel({ runId }: WorkflowWait): Promise<boolean> {
    const { store } = this.#options
    const child = await store.getRun(runId as RunId)
    if (child === null || isRunClosed(child.status)) return true
    return !(await cancelRun(store, child.id))
  }

  async #create(claim: TaskClaim, node: Node, { workflow: name, runId }: WorkflowWait): Promise<void> {
    const { store } = this.#options
    if (claim.run.depth >= MAX_SUBWORKFLOW_DEPTH) {
      throw new TaskFailure(`workflow ${name} is not started: sub-workflows are nested ${MAX_SUBWORKFLOW_DEPTH} deep at most`)
    }
    const version = await this.#findWorkflow(claim, name)
    const compiled = await store.getVersion(version.versionId)
    const bound = bindParams(compiled, { values: await this.#params(claim, node) })
    if (!bound.ok) {
      const problems = bound.problems.map(({ path, message }) => `${path} ${message}`).join("; ")
      throw new TaskFailure(`the input does not fit workflow ${name}: ${problems}`)
    }
    const withinSameWorkflow = await this.#isWithin(version.workflowId, claim)
    await store.createRuns([
      { id: runId as RunId, ...version, params: bound.params, ...inheritedFrom(claim, node, withinSameWorkflow) },
    ])
  }

  /** Returns whether the run of the claim, or a run above it, is of the workflow. */
  async #isWithin(workflowId: number, claim: TaskClaim): Promise<boolean> {
    let runId: RunId | undefined = claim.runId
    while (runId !== undefined) {
      const run: RunRow | null = await this.#options.store.getRun(runId)
      if (run?.workflowId === workflowId) return true
      runId = run?.parent?.runId
    }
    return false
  }

  async #findWorkflow(claim: TaskClaim, name: string): Promise<{ workflowId: number; versionId: number }> {
    const found = await this.#options.findWorkflow?.(name, { workingDir: claim.run.workingDir })
    if (found === undefined || found === null) {
      throw new TaskFailure(
        `there is no workflow ${JSON.stringify(name)}: deploy it${claim.run.private ? ", or put it beside this one" : ""}`,
      )
    }
    const { workflowId, versionId } = found
    return { workflowId, versionId }
  }

  /** Returns the params of the child run: the task's own input only, without upstream outputs. */
  async #params(claim: TaskClaim, node: Node): Promise<JsonObject> {
    if (node.input === undefined) return {}
    const { workflow } = nodeOf(this.#options.store, claim)
    const scope = await buildScope(this.#outputs, claim, workflow, node)
    return (await this.#options.evaluator.render(node.input, scope)) as JsonObject
  }

  /** Stores the outputs of the child run's tasks by name, as the output of the task. */
  async #joinOutputs({ runId, attemptId }: TaskClaim, { name }: Node, child: RunRow): Promise<Output> {
    const key = outputKey(runId, name, attemptId)
    const output = await joinOutputs(this.#options, key, "object", this.#outputsOf(child))
    if (output !== null) return output
    const { maxOutputBytes } = this.#options
    throw new TaskFailure(
      `the outputs of run ${child.id} are together larger than the ${maxOutputBytes} bytes allowed (ORK_MAX_OUTPUT)`,
    )
  }

  async *#outputsOf(child: RunRow): AsyncGenerator<Member> {
    const { store } = this.#options
    const compiled = await store.getVersion(child.versionId)
    for (const index of rootNodes(compiled)) {
      const { name } = compiled.nodes[index]!
      const task = await store.getTask({ runId: child.id, name, path: "" })
      yield { name, output: task?.status === "success" ? task.output : null }
    }
  }
}

const inheritedFrom = (
  { row, attemptId, runId, run }: TaskClaim,
  node: Node,
  withinSameWorkflow: boolean,
): Omit<NewRun, "id" | "workflowId" | "versionId" | "params"> => ({
  trigger: "workflow",
  priority: run.priority,
  logicalDate: run.logicalDate,
  idempotencyKey: `task:${attemptId}`,
  private: run.private,
  workingDir: run.workingDir,
  ...(run.timezone !== null && { timezone: run.timezone }),
  parent: {
    row,
    runId,
    task: node.name,
    rootRunId: run.private ? (run.rootRunId ?? runId) : null,
    depth: run.depth + 1,
    withinSameWorkflow,
  },
})
