// Prepares the replay of one task of an exported run: a workflow in which every other task returns what it returned in that run.

import type { z } from "zod"
import { InputError } from "../terminal/errors.ts"
import type { TaskReference } from "../terminal/option-values.ts"
import { nearest } from "../../core/values/nearest.ts"
import { omitUndefined } from "../../core/values/omit-undefined.ts"
import { isGroup, taskDisplayName } from "../../core/model/task-path.ts"
import { isWaitingExecutor } from "../../core/model/waiting-on.ts"
import { type CompiledWorkflow, type Node, nodeIndexOf } from "../../core/model/workflow.ts"
import type { exportedTask, runExport } from "../../protocol/api/run-export.ts"

export type ExportedRun = z.output<typeof runExport>
export type ExportedTask = z.output<typeof exportedTask>

/** Executor of the tasks that are not replayed. */
export const RECORDED_EXECUTOR = "recorded"

/** Returns the task to replay. Throws an InputError when the run has no such task, or when it did not run. */
export const findTask = ({ tasks, workflow }: ExportedRun, { task: name, path, label }: TaskReference): ExportedTask => {
  const instances = tasks.filter((each) => each.name === name)
  const isSelected = (each: ExportedTask): boolean =>
    (path === undefined || each.path === path) && (label === undefined || each.label === label)
  const [task, another] = instances.filter(isSelected)
  if (task === undefined) {
    throw new InputError(instances.length > 0 ? `task ${name} has no such instance` : unknownTask(nodesOf({ workflow }), name))
  }
  if (!nodesOf({ workflow }).some((node) => node.name === name))
    throw new InputError(`the workflow in the export has no task ${name}`)
  if (another !== undefined)
    throw new InputError(`task ${name} has several instances; select one, such as ${name}[${task.path}]`)
  if (task.attempt === 0) throw new InputError(`task ${taskDisplayName(name, task.path)} did not run: it is ${task.status}`)
  return task
}

const nodesOf = ({ workflow }: Pick<ExportedRun, "workflow">): Node[] => (workflow as unknown as CompiledWorkflow).nodes

const unknownTask = (nodes: readonly Node[], name: string): string => {
  const node = nodes.find((each) => each.name === name)
  if (node !== undefined) return isGroup(node) ? `${name} is a group; name a task inside it` : `task ${name} did not run`
  const names = nodes.map((each) => each.name)
  const near = nearest(name, names)
  return `the run has no task ${name}; ${near === undefined ? `it has ${names.join(", ")}` : `did you mean ${near}?`}`
}

/** Returns the workflow of the replay. Tasks that the replayed one does not read are skipped. */
export const replayWorkflow = ({ workflow, bundle }: ExportedRun, name: string): CompiledWorkflow => {
  const compiled = workflow as unknown as CompiledWorkflow
  const { nodes } = compiled
  const target = nodeIndexOf(compiled, name)
  const { hook, executor } = nodes[target]!
  if (hook !== null) throw new InputError(`${name} is a hook; only tasks can be replayed`)
  if (isWaitingExecutor(executor)) throw new InputError(`${name} runs nothing: its executor is ${executor}`)
  const around = groupsAround(nodes, target)
  const needed = neededNodes(nodes, [target, ...around])
  const replayed = nodes.map((node, i) => {
    if (i === target) return runOnce(unconditional(node))
    if (around.includes(i)) return unconditional(node)
    return needed.has(i) ? recordedNode(node) : skippedNode(node)
  })
  const { name: workflowName, tags, params, anyParams, include } = compiled
  return {
    ...omitUndefined({ anyParams, bundle: bundle?.hash }),
    format: 1,
    name: workflowName,
    tags,
    params,
    schedules: [],
    notify: [],
    include,
    nodes: replayed.filter((node) => node.hook === null),
  }
}

const groupsAround = (nodes: readonly Node[], target: number): number[] => {
  const { group } = nodes[target]!
  return group === null ? [] : [group, ...groupsAround(nodes, group)]
}

/** Returns the nodes that these nodes read, directly or not, with the tasks inside them. */
const neededNodes = (nodes: readonly Node[], from: readonly number[]): Set<number> => {
  const needed = new Set<number>()
  const pending = [...from]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { upstream, reads } = nodes[next]!
    const inside = needed.has(next) ? nodes.flatMap(({ group }, i) => (group === next ? [i] : [])) : []
    for (const index of [...upstream, ...reads, ...inside]) {
      if (needed.has(index)) continue
      needed.add(index)
      pending.push(index)
    }
  }
  return needed
}

const without = <Field extends keyof Node>(node: Node, fields: readonly Field[]): Omit<Node, Field> =>
  Object.fromEntries(Object.entries(node).filter(([field]) => !fields.includes(field as Field))) as Omit<Node, Field>

/** Removes what could keep a node from running: it ran in the exported run. */
const unconditional = (node: Node): Node => ({
  ...without(node, ["if", "cache", "concurrencyKey"]),
  rule: "all_done",
  gated: true,
})

/** Returns the node without retries, and for any worker. */
const runOnce = (node: Node): Node => ({
  ...without(node, ["retryOn", "skipOn"]),
  queue: "default",
  labels: [],
  lostRetries: 0,
  retry: { ...node.retry, maxAttempts: 1 },
})

const recordedNode = (node: Node): Node => ({
  ...without(runOnce(node), [
    "command",
    "file",
    "function",
    "image",
    "secretFields",
    "artifactsFrom",
    "cache",
    "durable",
    "defer",
    "output",
  ]),
  executor: isGroup(node) ? node.executor : RECORDED_EXECUTOR,
  fields: {},
  env: {},
})

const skippedNode = (node: Node): Node => ({ ...without(recordedNode(node), ["fan", "label"]), if: "false", gated: true })
