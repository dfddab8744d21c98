// Builds the scope that the expressions of a task or a job read. A claim carries the outputs that its task reads; only large ones are
// fetched, and only if an expression refers to them.

import { isLarge, type OutputReader } from "./outputs.ts"
import { TaskFailure } from "./task-failure.ts"
import type { Output } from "../../core/model/change.ts"
import {
  type ExpressionScope,
  expressionsOf,
  type LargeText,
  MAX_OPERANDS,
  parseExpression,
} from "../../core/expressions/expressions.ts"
import type { TaskStatus } from "../../core/model/status.ts"
import { enclosingPath, isGroup, isInstance, lastIndex, shortName } from "../../core/model/task-path.ts"
import { logicalDay } from "../../core/time/schedule.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import type { Claim, JobClaim, TaskClaim } from "../../store/contract/store.ts"

export const buildScope = async (
  outputs: OutputReader,
  claim: Claim,
  workflow: CompiledWorkflow,
  node: Node,
): Promise<ExpressionScope> => (claim.kind === "job" ? jobScope(claim) : await taskScope(outputs, claim, workflow, node))

const taskScope = async (
  outputs: OutputReader,
  claim: TaskClaim,
  workflow: CompiledWorkflow,
  node: Node,
): Promise<ExpressionScope> => {
  const referenced = referencedTasks(node)
  const tasks: ExpressionScope["tasks"] = {}
  const texts: { [task: string]: LargeText } = {}
  for (const [index, state] of claim.reads) {
    const name = shortName(workflow.nodes[index]!)
    const reads = referenced === "all" ? "output" : referenced.get(name)
    if (reads === undefined) continue
    const output = reads === "output" ? readable(name, visibleOutput(workflow.nodes[index]!, state)) : null
    if (isLarge(output)) texts[name] = outputs.text(output)
    tasks[name] = { status: state.status, output: isLarge(output) ? null : await outputs.value(output) }
  }
  const doubles = workflow.params.flatMap(({ name, type }) => (type === "number" ? [name] : []))
  const scope: ExpressionScope = { params: claim.run.params, doubles, tasks, run: runScope(claim, workflow) }
  if (Object.keys(texts).length > 0) scope.texts = texts
  if (isInstance(node, claim.kind)) {
    scope.index = lastIndex(claim.path)
    if (node.fan!.foreach !== undefined) scope.item = claim.item
  }
  if (node.parent !== undefined) {
    const index = lastIndex(enclosingPath(workflow, claim.node, claim.path))
    const hasItem = workflow.nodes[node.parent]!.fan?.foreach !== undefined
    scope.parent = hasItem ? { index, item: claim.parentItem } : { index }
  }
  return scope
}

/** Throws a `TaskFailure` when the output is too large for expressions. */
const readable = (name: string, output: Output | null): Output | null => {
  if (output === null || "inline" in output || output.bytes <= MAX_OPERANDS) return output
  const advice = "compute it in a task, from the file in $ORK_UPSTREAM"
  throw new TaskFailure(
    `an expression reads the output of ${name}, which has ${output.bytes} bytes and more than 16 MiB; ${advice}`,
  )
}

const runScope = ({ runId, run }: TaskClaim, workflow: CompiledWorkflow): ExpressionScope["run"] => {
  const logical = run.logicalDate ?? run.createdAt
  return {
    id: runId,
    workflow: run.workflow,
    logical_date: logical,
    date: logicalDay(logical, run.timezone, workflow),
    trigger: run.trigger,
    cause: run.cause,
    status: run.status,
    error: run.error,
  }
}

/** Returns the scope of a job: it has neither parameters nor upstream tasks, and `run` describes the job. */
const jobScope = ({ job, createdAt }: JobClaim): ExpressionScope => ({
  params: {},
  tasks: {},
  run: {
    id: job.id,
    workflow: "",
    logical_date: createdAt,
    date: createdAt.slice(0, 10),
    trigger: "job",
    cause: null,
    status: "running",
    error: null,
  },
})

/**
 * Returns the output that downstream tasks see. A container gives the outputs of its successful children; a task that did not
 * succeed gives null, even if it has an output (a rejected approval records who rejected it).
 */
export const visibleOutput = (node: Node, { status, output }: { status: TaskStatus; output: Output | null }): Output | null =>
  status === "success" || node.fan !== undefined || isGroup(node) ? output : null

/** Task names as the expressions write them, with what they read; `all` when an expression computes a name (`tasks[params.which]`). */
type ReferencedTasks = ReadonlyMap<string, "status" | "output"> | "all"

const cache = new WeakMap<Node, ReferencedTasks>()

/** Finds the upstream tasks whose outputs the expressions of a node read, so that no other output is fetched. */
const referencedTasks = (node: Node): ReferencedTasks => {
  const found = cache.get(node) ?? findReferences(node)
  cache.set(node, found)
  return found
}

const findReferences = (node: Node): ReferencedTasks => {
  const found = new Map<string, "status" | "output">()
  for (const source of expressionsIn(node)) {
    for (const ref of parseExpression(source).refs) {
      if (ref.root !== "tasks") continue
      const [name, field] = ref.path
      if (typeof name !== "string") return "all"
      if (field !== "status") found.set(name, "output")
      else if (!found.has(name)) found.set(name, "status")
    }
  }
  return found
}

const readOutputs = new WeakMap<CompiledWorkflow, ReadonlySet<number>>()

/** Returns whether an expression of the workflow reads the output of a node. */
export const isOutputRead = (workflow: CompiledWorkflow, index: number): boolean => {
  const found = readOutputs.get(workflow) ?? findReadOutputs(workflow)
  readOutputs.set(workflow, found)
  return found.has(index)
}

const findReadOutputs = ({ nodes }: CompiledWorkflow): Set<number> => {
  const found = new Set<number>()
  for (const node of nodes) {
    const references = expressionsIn(node).flatMap((source) => parseExpression(source).refs)
    const names = new Set(
      references.filter(({ root, path }) => root === "tasks" && path[1] !== "status").map(({ path }) => path[0]),
    )
    for (const index of node.reads) if (names.has(shortName(nodes[index]!))) found.add(index)
  }
  return found
}

const expressionsIn = (node: Node): string[] => {
  const templates = [node.fan?.foreach, node.fan?.parallel, node.input, node.workingDir, ...Object.values(node.fields)]
  for (const value of Object.values(node.env)) if ("value" in value) templates.push(value.value)
  if (node.command !== undefined && "argv" in node.command) templates.push(...node.command.argv)
  const vars = node.command !== undefined && "shell" in node.command ? node.command.vars.map((variable) => variable.expr) : []
  const bare = [node.if, node.label, node.concurrencyKey, node.cache?.key, node.wait?.until].filter(
    (source) => source !== undefined,
  )
  return [...bare, ...vars, ...templates.flatMap((template) => (template === undefined ? [] : expressionsOf(template)))]
}
