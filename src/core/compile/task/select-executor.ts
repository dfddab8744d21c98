// Selects the executor of a task and checks the task's fields against it.

import { FUNCTION_EXECUTOR, FUNCTION_NAME_HINT, isFunctionName } from "../../model/function.ts"
import { nearest } from "../../values/nearest.ts"
import { pathText } from "../../model/problems.ts"
import type { TaskDefinition } from "../../model/definition.ts"
import { BUILTIN_EXECUTORS, GROUP_EXECUTOR } from "../../model/workflow.ts"
import type { CompileContext } from "../context/context.ts"
import {
  builtinRule,
  type ExecutorRule,
  executorsAccepting,
  FUNCTION_RULE,
  GROUP_FIELDS,
  GROUP_RULE,
  RUN_FIELDS,
  type RunField,
  UNKNOWN_RULE,
} from "./executors.ts"
import { quote } from "../context/names.ts"
import type { TaskSource } from "./task.ts"
import { waitTargetProblem } from "./wait.ts"

export interface SelectedExecutor {
  executor: string
  rule: ExecutorRule
  /** Name of the registered function that the task calls; null for other tasks. */
  functionName: string | null
}

export const selectExecutor = (context: CompileContext, source: TaskSource): SelectedExecutor => {
  if (source.merged.tasks !== undefined) {
    checkGroup(context, source)
    return { executor: GROUP_EXECUTOR, rule: GROUP_RULE, functionName: null }
  }
  const executor = source.merged.executor ?? "process"
  const functionName = calledFunction(context, source, executor)
  if (functionName !== null) return { executor: FUNCTION_EXECUTOR, rule: FUNCTION_RULE, functionName }
  const rule = builtinRule(executor) ?? reportUnknown(context, source, executor)
  checkFields(context, source, executor, rule)
  return { executor, rule, functionName: null }
}

/**
 * Returns the registered function that the task calls: by `executor: node` with `function` only, or by its name as the executor.
 * A name that resembles a built-in executor, or comes with fields of one, is taken for a misspelt executor: null.
 */
const calledFunction = (context: CompileContext, { own, merged, path }: TaskSource, executor: string): string | null => {
  if (builtinRule(executor) === undefined) {
    const isName = isFunctionName(executor) && nearest(executor, BUILTIN_EXECUTORS) === undefined
    return isName && unsuitableFields(own, FUNCTION_RULE).length === 0 ? executor : null
  }
  if (executor !== "node" || merged.file !== undefined || merged.function === undefined) return null
  if (unsuitableFields(own, FUNCTION_RULE).some((field) => field !== "function")) return null
  const name = context.literal(merged.function, [...path, "function"])
  if (!isFunctionName(name)) {
    context.problems.add([...path, "function"], `${quote(name)} is not a valid function name: ${FUNCTION_NAME_HINT}`)
  }
  return name
}

const unsuitableFields = (own: TaskDefinition, rule: ExecutorRule): RunField[] =>
  RUN_FIELDS.filter((field) => own[field] !== undefined && !rule.accepts.includes(field))

const reportUnknown = (context: CompileContext, { own, path }: TaskSource, executor: string): ExecutorRule => {
  const near = nearest(executor, BUILTIN_EXECUTORS)
  const unsuitable = unsuitableFields(own, FUNCTION_RULE)
  let message = `there is no executor ${quote(executor)}; the executors are ${BUILTIN_EXECUTORS.join(", ")}`
  if (isFunctionName(executor)) {
    if (unsuitable.length === 0) {
      message += `; to call a registered function of that name, write executor: node and function: ${executor}`
    } else if (near === undefined) {
      message += `; a registered function of that name takes input only, not ${unsuitable.join(", ")}`
    }
  }
  context.problems.add([...path, "executor"], message, near)
  return UNKNOWN_RULE
}

const checkGroup = (context: CompileContext, { own, path }: TaskSource): void => {
  for (const field of Object.keys(own)) {
    if (GROUP_FIELDS.has(field)) continue
    context.problems.addKey([...path, field], `a group cannot have ${field}; set it on the tasks inside the group`)
  }
}

/** Reports the task's own fields that its executor does not take; inherited ones are ignored. Then reports missing fields. */
const checkFields = (
  context: CompileContext,
  { own, merged, path }: TaskSource,
  executor: string,
  rule: ExecutorRule,
): void => {
  // An unknown profile may change the executor and its fields.
  if (merged.worker !== undefined && context.options.profiles === undefined) return
  const unsuitable = unsuitableFields(own, rule)
  for (const field of unsuitable) {
    const others = executorsAccepting(field)
    const hint = others.length === 0 ? "" : `; it is a field of ${others.join(", ")}`
    context.problems.addKey([...path, field], `the executor ${quote(executor)} has no field ${field}${hint}`)
  }
  if (unsuitable.length > 0 || context.options.incomplete?.has(pathText(path)) === true) return
  const problem = missingFields(own, merged, executor, rule)
  if (problem !== null) context.problems.addKey(path, problem)
}

/** Checks the fields of an executor that runs a command or a function elsewhere. */
const workProblem = (merged: TaskDefinition, executor: string, { accepts }: ExecutorRule): string | null => {
  if (builtinRule(executor) === undefined || !accepts.includes("file") || !accepts.includes("command")) return null
  const { command, file, function: name } = merged
  if (command !== undefined && file !== undefined) return "has both a command and a file; a task runs one of them"
  if (name !== undefined && file === undefined) return "has a function without the file that contains it"
  if (executor === "slurm" && command === undefined && file === undefined) return 'the executor "slurm" needs command, or file'
  return null
}

const missingFields = (own: TaskDefinition, merged: TaskDefinition, executor: string, rule: ExecutorRule): string | null => {
  if (executor === "sleep" && (merged.duration === undefined) === (merged.until === undefined)) {
    return `the executor "sleep" needs either duration or until`
  }
  if (executor === "wait") return waitTargetProblem(merged)
  const missing = rule.requires.filter((field) => merged[field] === undefined)
  const problem = workProblem(merged, executor, rule)
  if (missing.length === 0) return problem
  if (own.executor === undefined && !RUN_FIELDS.some((field) => own[field] !== undefined)) {
    return "has nothing to run; add a command, tasks, or an executor with its fields"
  }
  return executor === "node"
    ? 'the executor "node" needs file, or only function: the name of a registered function'
    : `the executor ${quote(executor)} needs ${missing.join(", ")}`
}
