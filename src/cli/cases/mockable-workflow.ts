// A workflow all tasks of which mocks can replace.

import { FUNCTION_EXECUTOR } from "../../core/model/function.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"

/**
 * Returns the workflow with tasks that mocks can replace: functions, other workflows, and approvals and `wait` tasks that have a mock.
 * Secrets have any value, and no task requires a label.
 */
export const mockableWorkflow = (workflow: CompiledWorkflow, hasMock: (waiting: string) => boolean): CompiledWorkflow => ({
  ...workflow,
  nodes: workflow.nodes.map((node) => {
    const { secretFields: _, ...rest } = node
    return { ...rest, executor: executorOf(node, hasMock), labels: [], env: withoutSecrets(node.env) }
  }),
})

const executorOf = ({ executor, name }: Node, hasMock: (waiting: string) => boolean): string => {
  const mayWait = executor === "approval" || executor === "wait"
  const isMocked = executor === FUNCTION_EXECUTOR || executor === "workflow" || (mayWait && hasMock(name))
  return isMocked ? "process" : executor
}

const withoutSecrets = (env: Node["env"]): Node["env"] =>
  Object.fromEntries(
    Object.entries(env).map(([name, value]) => [name, "secret" in value ? { value: { lit: `(${value.secret})` } } : value]),
  )
