// Results and errors of finished jobs, runs and children of durable functions.

import type { ChildEnd } from "../durable/activation.ts"
import { MAIN_TASK } from "../../core/model/function.ts"
import { TaskFailure } from "../../engine/attempts/task-failure.ts"
import { OutputReader } from "../../engine/attempts/outputs.ts"
import { NotFoundError } from "../errors.ts"
import type { AnyGraph } from "../graph/graph.ts"
import { valueAt } from "../graph/refs.ts"
import type { Output } from "../../core/model/change.ts"
import type { Child } from "../../core/model/function-signals.ts"
import type { RunId } from "../../core/model/ids.ts"
import { isRunClosed } from "../../core/model/status.ts"
import { rootNodes } from "../../core/model/workflow.ts"
import { isJobFinished } from "../../core/rules/jobs/jobs.ts"
import { JOB_CANCELLED } from "../../core/rules/messages.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import type { WholeOutputs } from "../../engine/services/whole-output.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import type { RunRow } from "../../store/contract/store.ts"

const UNKNOWN = "no reason is known"

export const readOutput = async (objects: Pick<ObjectStore, "get">, output: Output): Promise<Json> => {
  try {
    return await new OutputReader(objects).value(output)
  } catch (error) {
    throw error instanceof TaskFailure ? new NotFoundError(error.message, { cause: error }) : error
  }
}

/** Returns why a run failed: the error of a function, or which task of a graph failed and why. */
export const failureOf = async (store: ServerStore, { id, versionId, error }: RunRow): Promise<string> => {
  const { nodes, anyParams } = await store.getVersion(versionId)
  const failed = (await store.listRowStates(id)).find(({ status }) => status === "failed")
  const row = failed && (await store.getTask({ runId: id, name: nodes[failed.node]!.name, path: "" }))
  if (anyParams === true) return row?.error ?? error ?? UNKNOWN
  return [error, row?.error].filter((part) => typeof part === "string").join(": ") || UNKNOWN
}

interface ResultSource {
  store: ServerStore
  outputs: WholeOutputs
  /** undefined: this process does not have the graph. */
  graph: AnyGraph | undefined
}

/** Returns the result of a run: the output of a function, what a graph of this process returns, or the outputs of its tasks by name. */
export const resultOf = async ({ store, outputs, graph }: ResultSource, { id, versionId }: RunRow): Promise<Json> => {
  const workflow = await store.getVersion(versionId)
  const outputOf = (task: string): Promise<Json> => outputs.read(workflow, id, task)
  if (workflow.anyParams === true) return await outputOf(MAIN_TASK)
  const result = graph?.result
  if (result !== undefined && result !== null) return valueAt(await outputOf(result.task), result.segments)
  const byName: JsonObject = {}
  for (const index of rootNodes(workflow)) {
    const task = workflow.nodes[index]!.name
    byName[task] = await outputOf(task)
  }
  return byName
}

/** Returns the end of a child; null while it has not finished, or was not created. One that was removed has failed. */
export const childEnd = async (store: ServerStore, { kind, id, made = false }: Child): Promise<ChildEnd | null> => {
  const gone = (what: string): ChildEnd | null =>
    made ? { error: `${what} ${id} is gone: it was removed before the function has read its result`, cancelled: false } : null
  if (kind === "task") {
    const job = await store.getJob(id)
    if (job === null) return gone("job")
    if (!isJobFinished(job.status)) return null
    if (job.status === "COMPLETED") return { output: job.output }
    return { error: job.error ?? UNKNOWN, cancelled: job.error === JOB_CANCELLED }
  }
  const run = await store.getRun(id as RunId)
  if (run === null) return gone("run")
  if (!isRunClosed(run.status)) return null
  const main = await store.getTask({ runId: run.id, name: MAIN_TASK, path: "" })
  if (run.status === "success") return { output: main?.output ?? null }
  return { error: main?.error ?? run.error ?? UNKNOWN, cancelled: run.status === "cancelled" }
}
