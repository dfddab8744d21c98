// The input that a task was given, made again from what it was made of: item, upstream outputs by name, its own `input`, later
// wins. Nothing is kept of it. An expression that may take long is not evaluated here: then `input` lacks the task's own part.

import type { Output } from "../../core/model/change.ts"
import {
  evaluate,
  expressionsOf,
  ExpressionError,
  isBounded,
  render,
  type ExpressionScope,
} from "../../core/expressions/expressions.ts"
import type { Json, JsonObject } from "../../core/model/json.ts"
import { lastIndex, enclosingPath, shortName } from "../../core/model/task-path.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import type { RunRow, TaskRow } from "../../store/contract/store.ts"
import type { Api } from "../http/ports.ts"

/** Larger outputs are named, not shown. */
const MAX_SHOWN = 256 * 1024

/** null: the task has not been started. */
export const taskInput = async (api: Api, run: RunRow, task: TaskRow, workflow: CompiledWorkflow): Promise<Json> => {
  if (task.attempt === 0) return null
  const node = workflow.nodes[task.node]!
  const tasks = await upstreamTasks(api, task, node, workflow)
  const input: JsonObject = node.fan?.foreach === undefined ? {} : { item: task.item }
  for (const index of node.upstream) {
    const name = shortName(workflow.nodes[index]!)
    input[name] = tasks[name]?.output ?? null
  }
  return { ...input, ...ownInput(run, task, node, tasks, await parentOf(api, task, node, workflow)) }
}

const upstreamTasks = async (
  api: Api,
  task: TaskRow,
  node: Node,
  workflow: CompiledWorkflow,
): Promise<ExpressionScope["tasks"]> => {
  const found = await Promise.all(
    [...new Set([...node.upstream, ...node.reads])].map(async (index) => {
      const above = workflow.nodes[index]!
      const path = enclosingPath(workflow, index, task.path)
      const row = await api.store.getTask({ runId: task.runId, name: above.name, path })
      return [shortName(above), { status: row?.status ?? "pending", output: await shown(api, row?.output ?? null) }] as const
    }),
  )
  return Object.fromEntries(found)
}

const parentOf = async (
  api: Api,
  task: TaskRow,
  node: Node,
  workflow: CompiledWorkflow,
): Promise<ExpressionScope["parent"]> => {
  if (node.parent === undefined) return undefined
  const group = workflow.nodes[node.parent]!
  const path = enclosingPath(workflow, task.node, task.path)
  const row = await api.store.getTask({ runId: task.runId, name: group.name, path })
  return { index: lastIndex(path), ...(group.fan?.foreach !== undefined && { item: row?.item ?? null }) }
}

const shown = async (api: Api, output: Output | null): Promise<Json> => {
  if (output === null) return null
  if ("inline" in output) return output.inline
  const bytes = output.bytes > MAX_SHOWN ? null : await api.objects.get(output.key)
  if (bytes === null) return { output_object: { key: output.key, bytes: output.bytes } }
  return JSON.parse(Buffer.from(bytes).toString("utf8")) as Json
}

const ownInput = (
  run: RunRow,
  task: TaskRow,
  node: Node,
  tasks: ExpressionScope["tasks"],
  parent: ExpressionScope["parent"],
): JsonObject => {
  if (node.input === undefined || !expressionsOf(node.input).every(isBounded)) return {}
  const logicalDate = run.logicalDate ?? run.createdAt
  const scope: ExpressionScope = {
    params: run.params,
    tasks,
    run: {
      id: run.id,
      workflow: run.workflow,
      logical_date: logicalDate,
      date: logicalDate.slice(0, 10),
      trigger: run.trigger,
      status: run.status,
      error: run.error,
    },
  }
  if (node.fan !== undefined) {
    scope.index = lastIndex(task.path)
    if (node.fan.foreach !== undefined) scope.item = task.item
  }
  if (parent !== undefined) scope.parent = parent
  try {
    return render(node.input, scope, evaluate) as JsonObject
  } catch (error) {
    if (error instanceof ExpressionError) return {}
    throw error
  }
}
