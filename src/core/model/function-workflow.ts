// Functions of a program as compiled workflows and tasks of jobs: one node, which calls the function.

import { bareNode } from "./bare-node.ts"
import { FUNCTION_EXECUTOR, MAIN_TASK } from "./function.ts"
import { type CompiledWorkflow, DEFAULT_PRIORITY, type Node, type RetryPolicy } from "./workflow.ts"

/** What the definition of a function says about its work. */
export interface FunctionFields {
  /** `workflow`: a durable function. */
  kind: "task" | "workflow"
  functionName: string
  queue: string
  priority: number
  retry: RetryPolicy
  timeoutMs: number | null
}

const LOST_RETRIES = 3
/** Lost attempts of a durable function are free: its steps are not repeated. */
const DURABLE_LOST_RETRIES = 100

/** Returns a workflow of one task, which calls the function of the definition with the params of the run. */
export const functionWorkflow = (name: string, definition: FunctionFields): CompiledWorkflow => ({
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

export const taskNode = ({ kind, functionName, queue, retry, timeoutMs }: FunctionFields): Node =>
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
