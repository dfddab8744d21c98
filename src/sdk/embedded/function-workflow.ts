// Functions of a program as compiled workflows and tasks of jobs: one node, which calls the function.

import type { AnyFunctionDefinition } from "../definitions.ts"
import { bareNode } from "../../core/model/bare-node.ts"
import { FUNCTION_EXECUTOR, MAIN_TASK } from "../../core/model/function.ts"
import { type CompiledWorkflow, DEFAULT_PRIORITY, type Node } from "../../core/model/workflow.ts"

const LOST_RETRIES = 3
/** Lost attempts of a durable function are free: its steps are not repeated. */
const DURABLE_LOST_RETRIES = 100

/** Returns a workflow of one task, which calls the function of the definition with the params of the run. */
export const functionWorkflow = (name: string, definition: AnyFunctionDefinition): CompiledWorkflow => ({
  format: 1,
  name,
  tags: [],
  params: [],
  anyParams: true,
  schedules: [],
  notify: [],
  include: [],
  ...(definition.priority !== DEFAULT_PRIORITY && { priority: definition.priority }),
  nodes: [taskNode(definition)],
})

export const taskNode = ({ kind, functionName, queue, retry, timeoutMs }: AnyFunctionDefinition): Node =>
  bareNode({
    name: MAIN_TASK,
    executor: FUNCTION_EXECUTOR,
    function: functionName,
    paramsAsInput: true,
    ...(kind === "workflow" && { durable: true }),
    retry,
    lostRetries: kind === "workflow" ? DURABLE_LOST_RETRIES : LOST_RETRIES,
    timeoutMs,
    queue,
  })
