// Sub-workflows: makes the child run of a task, once for each attempt, and reads what came of it. The child's end wakes the task.

import { nodeOf } from "../attempts/claims.ts"
import type { AssignmentBuilder } from "../attempts/assignment-builder.ts"
import type { EngineOptions } from "../ports.ts"
import { TaskFailure } from "../attempts/task-failure.ts"
import type { WaitStep } from "./waiting-tasks.ts"
import { newRunId, type RunId } from "../../core/model/ids.ts"
import type { JsonObject } from "../../core/model/json.ts"
import { bindParams } from "../../core/rules/params.ts"
import { runEnded } from "../../core/model/status.ts"
import { MAX_SUBWORKFLOW_DEPTH, type WaitingOn } from "../../core/model/waiting-on.ts"
import { type Node, rootNodes } from "../../core/model/workflow.ts"
import type { TaskClaim, RunRow } from "../../store/contract/store.ts"

type WorkflowWait = Extract<WaitingOn, { kind: "workflow" }>

export class ChildRuns {
  readonly #options: EngineOptions
  readonly #inputs: AssignmentBuilder

  constructor(options: EngineOptions, inputs: AssignmentBuilder) {
    this.#options = options
    this.#inputs = inputs
  }

  /** Its run has its id before it is made: however often that is tried, there is one. */
  begin(workflow: string): WorkflowWait {
    const { clock, random } = this.#options
    return { kind: "workflow", workflow, runId: newRunId(clock.now(), random.hex128()) }
  }

  async check(claim: TaskClaim, node: Node, waits: WorkflowWait): Promise<WaitStep> {
    const child = await this.#options.store.getRun(waits.runId as RunId)
    if (child === null) {
      if (waits.made) return { result: { state: "failed", error: `run ${waits.runId} of ${waits.workflow} is gone` } }
      await this.#make(claim, node, waits)
      return { waitingOn: { ...waits, made: true }, delayMs: null }
    }
    if (!runEnded(child.status)) return { waitingOn: { ...waits, made: true }, delayMs: null }
    const what = `run ${child.id} of workflow ${waits.workflow}`
    switch (child.status) {
      case "success":
        return { result: { state: "success", output: await this.#outputs(child) } }
      case "cancelled":
        return { result: { state: "cancelled", error: `${what} was cancelled` } }
      default:
        return { result: { state: "failed", error: `${what} failed: ${child.error ?? "no reason is known"}` } }
    }
  }

  /** Asks for the child's cancellation; true once there is nothing left of it. */
  async cancel({ runId }: WorkflowWait): Promise<boolean> {
    const { store } = this.#options
    const child = await store.getRun(runId as RunId)
    if (child === null || runEnded(child.status)) return true
    return !(await store.requestCancel(child.id, "cancel"))
  }

  async #make(claim: TaskClaim, node: Node, { workflow: name, runId }: WorkflowWait): Promise<void> {
    const { store } = this.#options
    if (claim.run.depth >= MAX_SUBWORKFLOW_DEPTH) {
      throw new TaskFailure(`workflow ${name} is not started: sub-workflows are nested ${MAX_SUBWORKFLOW_DEPTH} deep at most`)
    }
    const version = await this.#find(claim, name)
    const compiled = await store.compiled(version.versionId)
    const bound = bindParams(compiled, { values: await this.#params(claim, node) })
    if (!bound.ok) {
      const problems = bound.problems.map(({ path, message }) => `${path} ${message}`).join("; ")
      throw new TaskFailure(`the input does not fit workflow ${name}: ${problems}`)
    }
    await store.createRuns([
      {
        id: runId as RunId,
        workflowId: version.workflowId,
        versionId: version.versionId,
        trigger: "workflow",
        params: bound.params,
        priority: claim.run.priority,
        logicalDate: claim.run.logicalDate,
        idempotencyKey: `task:${claim.attemptId}`,
        private: claim.run.private,
        workingDir: claim.run.workingDir,
        ...(claim.run.timezone !== null && { timezone: claim.run.timezone }),
        parent: {
          row: claim.row,
          runId: claim.runId,
          task: node.name,
          rootRunId: claim.run.private ? (claim.run.rootRunId ?? claim.runId) : null,
          depth: claim.run.depth + 1,
        },
      },
    ])
  }

  async #find(claim: TaskClaim, name: string): Promise<{ workflowId: number; versionId: number }> {
    const found = await this.#options.findWorkflow?.(name, { workingDir: claim.run.workingDir })
    if (found === undefined || found === null) {
      throw new TaskFailure(
        `there is no workflow ${JSON.stringify(name)}: deploy it${claim.run.private ? ", or put it beside this one" : ""}`,
      )
    }
    return found
  }

  /** The task's own input alone: what lies above it does not concern the child. */
  async #params(claim: TaskClaim, node: Node): Promise<JsonObject> {
    if (node.input === undefined) return {}
    const { workflow } = nodeOf(this.#options.store, claim)
    const scope = await this.#inputs.scope(claim, workflow, node)
    return (await this.#options.evaluator.render(node.input, scope)) as JsonObject
  }

  async #outputs(child: RunRow): Promise<JsonObject> {
    const { store } = this.#options
    const compiled = await store.compiled(child.versionId)
    const outputs: JsonObject = {}
    for (const index of rootNodes(compiled)) {
      const { name } = compiled.nodes[index]!
      const task = await store.getTask({ runId: child.id, name, path: "" })
      outputs[name] = task === null || task.status !== "success" ? null : await this.#inputs.value(task.output)
    }
    return outputs
  }
}
