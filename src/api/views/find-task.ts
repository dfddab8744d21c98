// Finds one instance of a task from what a request says: its name, and `index` or `path` for a fan-out.

import { nearest } from "../../core/model/nearest.ts"
import { isGroup } from "../../core/model/task-path.ts"
import type { RetryRequest } from "../../core/rules/retry-plan.ts"
import { attemptShapes, type TaskShape, taskShape } from "../../protocol/api/shapes.ts"
import type { AttemptRow, RunRow, TaskRow } from "../../store/contract/store.ts"
import { invalidField, notFound } from "../http/errors.ts"
import type { Api } from "../http/ports.ts"
import { taskInput } from "./task-input.ts"
import { workShape } from "./task-fields.ts"

export interface Instance {
  index?: number | undefined
  path?: string | undefined
}

export const instancePathOf = ({ index, path }: Instance): string | undefined => {
  if (index !== undefined && path !== undefined && path !== String(index)) {
    throw invalidField("path", "says another instance than index; give one of them")
  }
  return path ?? (index === undefined ? undefined : String(index))
}

export const findTask = async (api: Api, run: RunRow, name: string, instance: Instance): Promise<TaskRow> => {
  const path = instancePathOf(instance)
  if (path !== undefined) {
    const found = await api.store.getTask({ runId: run.id, name, path })
    if (found?.kind === "task") return found
    throw await unknownTask(api, run, name, path)
  }
  const [first, second] = await api.store.listTasks({ runId: run.id, name, limit: 2 })
  if (first === undefined) throw await unknownTask(api, run, name)
  if (second !== undefined || first.path !== "") {
    throw invalidField("index", `task ${name} has several instances: say which with index=N, or path=1.2 inside groups`)
  }
  return first
}

/** What a retry begins with: an instance, one item of a group, or one task of one item. Without a path a group means all of it. */
export const findRetryTarget = async (api: Api, run: RunRow, name: string, instance: Instance): Promise<RetryRequest> => {
  const path = instancePathOf(instance)
  if (path !== undefined) {
    if ((await api.store.getTask({ runId: run.id, name, path })) === null) throw await unknownTask(api, run, name, path)
    return { instance: { task: name, path } }
  }
  const node = (await api.store.compiled(run.versionId)).nodes.find((each) => each.name === name)
  if (node !== undefined && isGroup(node)) return { from: name }
  const task = await findTask(api, run, name, instance)
  return task.path === "" ? { from: name } : { instance: { task: name, path: task.path } }
}

const unknownTask = async (api: Api, run: RunRow, name: string, path?: string): Promise<Error> => {
  const names = (await api.store.compiled(run.versionId)).nodes.map((node) => node.name)
  if (names.includes(name))
    return notFound(`task ${name} of run ${run.id} has no instance${path === undefined ? " yet" : ` ${path}`}`)
  const near = nearest(name, names)
  return notFound(`run ${run.id} has no task ${name}${near === undefined ? "" : `; did you mean ${near}?`}`)
}

/** Attempts before the one in the task's row; no read for a task that has had none. */
const pastAttempts = async (api: Api, task: TaskRow): Promise<AttemptRow[]> =>
  task.attempt > 1 || (task.attempt === 1 && task.status === "pending") ? await api.store.listAttempts(task.row) : []

/** In a list: without its input, which would have to be put together from other tasks. */
export const taskSummary = async (api: Api, run: RunRow, task: TaskRow): Promise<TaskShape> => {
  const workflow = await api.store.compiled(run.versionId)
  const attempts = attemptShapes(task, await pastAttempts(api, task))
  return taskShape(task, workflow.nodes[task.node]!, { input: null, attempts })
}

export const taskDetails = async (
  api: Api,
  run: RunRow,
  task: TaskRow,
): Promise<TaskShape & { work: ReturnType<typeof workShape> }> => {
  const workflow = await api.store.compiled(run.versionId)
  const input = await taskInput(api, run, task, workflow)
  return { ...(await taskSummary(api, run, task)), input, work: workShape(workflow.nodes[task.node]!) }
}
