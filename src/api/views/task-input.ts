// Reconstructs the input of a task, which is not stored: the item, the upstream outputs by name and the task's own `input`, in this order
// of precedence, last wins. Expressions of unbounded cost are not evaluated here: the task's own `input` is then left out.

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

/** Size in bytes up to which an output is shown. Of a larger output only the key is shown. */
const MAX_SHOWN_BYTES = 256 * 1024

interface Context {
  api: Api
  run: RunRow
  task: TaskRow
  workflow: CompiledWorkflow
  node: Node
}

/** Returns null when the task has not started. */
export const taskInput = async (api: Api, run: RunRow, task: TaskRow, workflow: CompiledWorkflow): Promise<Json> => {
  if (task.attempt === 0) return null
  const node = workflow.nodes[task.node]!
  const context = { api, run, task, workflow, node }
  const tasks = await upstreamTasks(context)
  const input: JsonObject = node.fan?.foreach === undefined ? {} : { item: task.item }
  for (const index of node.upstream) {
    const name = shortName(workflow.nodes[index]!)
    input[name] = tasks[name]?.output ?? null
  }
  return { ...input, ...ownInput(node, { ...runScope(context), ...(await parentScope(context)), tasks }) }
}

const upstreamTasks = async ({ api, task, node, workflow }: Context): Promise<ExpressionScope["tasks"]> => {
  const found = await Promise.all(
    [...new Set([...node.upstream, ...node.reads])].map(async (index) => {
      const upstream = workflow.nodes[index]!
      const path = enclosingPath(workflow, index, task.path)
      const row = await api.store.getTask({ runId: task.runId, name: upstream.name, path })
      const output = await outputJson(api, row?.output ?? null)
      return [shortName(upstream), { status: row?.status ?? "pending", output }] as const
    }),
  )
  return Object.fromEntries(found)
}

const parentScope = async ({ api, task, node, workflow }: Context): Promise<Pick<ExpressionScope, "parent">> => {
  if (node.parent === undefined) return {}
  const group = workflow.nodes[node.parent]!
  const path = enclosingPath(workflow, task.node, task.path)
  const row = await api.store.getTask({ runId: task.runId, name: group.name, path })
  return { parent: { index: lastIndex(path), ...(group.fan?.foreach !== undefined && { item: row?.item ?? null }) } }
}

const runScope = ({ run, task, node }: Context): Omit<ExpressionScope, "tasks" | "parent"> => {
  const logicalDate = run.logicalDate ?? run.createdAt
  return {
    params: run.params,
    run: {
      id: run.id,
      workflow: run.workflow,
      logical_date: logicalDate,
      date: logicalDate.slice(0, 10),
      trigger: run.trigger,
      status: run.status,
      error: run.error,
    },
    ...(node.fan !== undefined && { index: lastIndex(task.path) }),
    ...(node.fan?.foreach !== undefined && { item: task.item }),
  }
}

const outputJson = async (api: Api, output: Output | null): Promise<Json> => {
  if (output === null) return null
  if ("inline" in output) return output.inline
  const bytes = output.bytes > MAX_SHOWN_BYTES ? null : await api.objects.get(output.key)
  if (bytes === null) return { output_object: { key: output.key, bytes: output.bytes } }
  return JSON.parse(Buffer.from(bytes).toString("utf8")) as Json
}

/** Evaluates the task's own `input`. Returns no fields when an expression is unbounded or fails. */
const ownInput = ({ input }: Node, scope: ExpressionScope): JsonObject => {
  if (input === undefined || !expressionsOf(input).every(isBounded)) return {}
  try {
    return render(input, scope, evaluate) as JsonObject
  } catch (error) {
    if (error instanceof ExpressionError) return {}
    throw error
  }
}
