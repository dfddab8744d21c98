// Finds the task instance that a request names: by the task's name, and by `index` or `path` in a fan-out. Builds its JSON.

import { nearest } from "../../core/values/nearest.ts"
import { isGroup } from "../../core/model/task-path.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { RetryRequest } from "../../core/rules/runs/retry-plan.ts"
import { attemptShapes, taskShape } from "../../engine/run-json.ts"
import type { Task } from "../../protocol/api/types.ts"
import type { AttemptRow, RunRow, TaskRow } from "../../store/contract/store.ts"
import { invalidField, notFound } from "../shared/errors.ts"
import type { Api } from "../http/ports.ts"
import { printedTextWarning } from "../../engine/attempts/printed-text.ts"
import { attemptPrefix } from "../../objects/objects.ts"
import { TaskInputs } from "./task-input.ts"
import { workShape } from "./task-fields.ts"

/** Fields of a request that select an instance of a fan-out. */
export interface InstanceSelector {
  index?: number | undefined
  path?: string | undefined
  label?: string | undefined
}

/** Returns the task path of the selected instance, or undefined when the request selects none. */
const instancePathOf = async (
  api: Api,
  run: RunRow,
  name: string,
  { index, path, label }: InstanceSelector,
): Promise<string | undefined> => {
  const named = new Set([path, index === undefined ? undefined : String(index), await labelledPath(api, run, name, label)])
  named.delete(undefined)
  if (named.size > 1) throw invalidField("path", "index, path and label name different instances; send only one of them")
  return [...named][0]
}

const MAX_LISTED = 3

const labelledPath = async (api: Api, run: RunRow, name: string, label: string | undefined): Promise<string | undefined> => {
  if (label === undefined) return undefined
  const paths = await api.store.findPaths({ runId: run.id, name, label, limit: MAX_LISTED + 1 })
  if (paths.length === 0) throw await unknownTask(api, run, name, label)
  if (paths.length === 1) return paths[0]
  const listed = `${paths.slice(0, MAX_LISTED).join(", ")}${paths.length > MAX_LISTED ? ", …" : ""}`
  throw invalidField(
    "label",
    `several instances of task ${name} have it: ${listed}; select one with index=N, or path=1.2 inside groups`,
  )
}

export const findTask = async (api: Api, run: RunRow, name: string, instance: InstanceSelector): Promise<TaskRow> => {
  const path = await instancePathOf(api, run, name, instance)
  if (path !== undefined) {
    const found = await api.store.getTask({ runId: run.id, name, path })
    if (found?.kind === "task") return found
    throw await unknownTask(api, run, name, path)
  }
  const [first, second] = await api.store.listTasks({ runId: run.id, name, limit: 2 })
  if (first === undefined) throw await unknownTask(api, run, name)
  if (second !== undefined || first.path !== "") {
    throw invalidField("index", `task ${name} has several instances; select one with index=N, or path=1.2 inside groups`)
  }
  return first
}

/**
 * Returns where a retry begins: at one instance, at one item of a group, or at all instances. A group without a path means all its
 * items.
 */
export const findRetryTarget = async (
  api: Api,
  run: RunRow,
  name: string,
  instance: InstanceSelector,
): Promise<RetryRequest> => {
  const path = await instancePathOf(api, run, name, instance)
  if (path !== undefined) {
    if ((await api.store.getTask({ runId: run.id, name, path })) === null) throw await unknownTask(api, run, name, path)
    return { instance: { task: name, path } }
  }
  const node = (await api.store.getVersion(run.versionId)).nodes.find((each) => each.name === name)
  if (node !== undefined && isGroup(node)) return { from: name }
  const task = await findTask(api, run, name, instance)
  return task.path === "" ? { from: name } : { instance: { task: name, path: task.path } }
}

const unknownTask = async (api: Api, run: RunRow, name: string, path?: string): Promise<Error> => {
  const names = (await api.store.getVersion(run.versionId)).nodes.map((node) => node.name)
  if (names.includes(name))
    return notFound(`task ${name} of run ${run.id} has no instance${path === undefined ? " yet" : ` ${path}`}`)
  const near = nearest(name, names)
  return notFound(`run ${run.id} has no task ${name}${near === undefined ? "" : `; did you mean ${near}?`}`)
}

/** Returns the attempts before the one in the task's row. Reads the store only if there are any. */
const pastAttempts = async (api: Api, task: TaskRow): Promise<AttemptRow[]> =>
  task.attempt > 1 || (task.attempt === 1 && task.status === "pending") ? await api.store.listAttempts(task.row) : []

const toShape = async (api: Api, task: TaskRow, workflow: CompiledWorkflow, inputs: TaskInputs): Promise<Task> => {
  const attempts = attemptShapes(task, await pastAttempts(api, task))
  return taskShape(task, workflow.nodes[task.node]!, { input: await inputs.of(task), attempts })
}

/** Returns tasks for a list. */
export const taskSummaries = async (api: Api, run: RunRow, tasks: readonly TaskRow[]): Promise<Task[]> => {
  const workflow = await api.store.getVersion(run.versionId)
  const inputs = new TaskInputs(api, run, workflow, { listed: true })
  return await Promise.all(tasks.map((task) => toShape(api, task, workflow, inputs)))
}

/** Returns a task with the fields of its executor, and a warning about its output. */
export const taskDetails = async (
  api: Api,
  run: RunRow,
  task: TaskRow,
): Promise<Task & { work: ReturnType<typeof workShape>; warning: string | null }> => {
  const workflow = await api.store.getVersion(run.versionId)
  const inputs = new TaskInputs(api, run, workflow, { listed: false })
  const shape = await toShape(api, task, workflow, inputs)
  return { ...shape, work: workShape(workflow.nodes[task.node]!), warning: await warningOf(api, task, workflow) }
}

const warningOf = async (api: Api, task: TaskRow, workflow: CompiledWorkflow): Promise<string | null> => {
  const { runId, name, node, status, attemptId, output } = task
  if (status !== "success" || attemptId === null) return null
  return await printedTextWarning(api.objects, { workflow, node, output, prefix: attemptPrefix(runId, name, attemptId) })
}
