// A workflow whose tasks can all be played by mocks.

import { FUNCTION_EXECUTOR } from "../../core/model/function.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"

/**
 * Lets a mock play what a test does not have: functions, other workflows, and approvals and `wait` tasks that have a mock. Secrets have
 * any value, and every label is there.
 */
export const playedWorkflow = (workflow: CompiledWorkflow, hasMock: (waiting: string) => boolean): CompiledWorkflow => ({
  ...workflow,
  nodes: workflow.nodes.map((node) => {
    const { secretFields: _, ...rest } = node
    return { ...rest, executor: executorOf(node, hasMock), labels: [], env: withoutSecrets(node.env) }
  }),
})

const executorOf = ({ executor, name }: Node, hasMock: (waiting: string) => boolean): string => {
  const mayWait = executor === "approval" || executor === "wait"
  const isPlayed = executor === FUNCTION_EXECUTOR || executor === "workflow" || (mayWait && hasMock(name))
  return isPlayed ? "process" : executor
}

const withoutSecrets = (env: Node["env"]): Node["env"] =>
  Object.fromEntries(
    Object.entries(env).map(([name, value]) => [name, "secret" in value ? { value: { lit: `(${value.secret})` } } : value]),
  )
