// Builders of compiled workflows for tests, without the compiler.

import { bareNode } from "./model/bare-node.ts"
import { type CompiledWorkflow, GROUP_EXECUTOR, HOOK_EVENTS, type HookEvent, type Node } from "./model/workflow.ts"

export type NodeInput = Partial<Omit<Node, "upstream" | "downstream" | "name">> & { after?: string[] }

/** Returns a node with the defaults of the compiler. */
export const node = (name: string, input: Partial<Node> = {}): Node => ({
  ...bareNode({ name, executor: "process", timeoutMs: 3_600_000 }),
  retry: { maxAttempts: 1, backoff: "exponential", baseDelayMs: 1000, maxDelayMs: 300_000, jitter: false },
  lostRetries: 3,
  startTimeoutMs: 300_000,
  queue: "default",
  ...input,
})

const isGated = (node: Node): boolean =>
  node.rule !== "all_success" ||
  node.executor === GROUP_EXECUTOR ||
  [node.if, node.fan, node.cache, node.concurrencyKey].some((field) => field !== undefined)

/** Fields of a group: `{ g: group, "g.a": {} }`. */
export const group = { executor: GROUP_EXECUTOR, timeoutMs: null } as const

/** Returns a workflow: `{ a: {}, b: { after: ["a"] } }`. A name such as `on_exit.0` makes a hook, `g.a` a task in the group `g`. */
export const workflow = (
  tasks: { [name: string]: NodeInput },
  rest: Partial<Omit<CompiledWorkflow, "nodes">> = {},
): CompiledWorkflow => {
  const names = Object.keys(tasks)
  const nodes = names.map((name) => {
    const { after = [], ...input } = tasks[name]!
    const upstream = after.map((up) => names.indexOf(up)).toSorted((a, b) => a - b)
    const hook = HOOK_EVENTS.find((event: HookEvent) => name.startsWith(`${event}.`)) ?? null
    const around = hook === null && name.includes(".") ? names.indexOf(name.slice(0, name.lastIndexOf("."))) : null
    const made = node(name, { hook, group: around, upstream, reads: upstream, ...input })
    return { ...made, gated: input.gated ?? isGated(made) }
  })
  nodes.forEach((below, i) => {
    for (const up of below.upstream) nodes[up]!.downstream.push(i)
  })
  return { format: 1, name: "test", tags: [], params: [], schedules: [], notify: [], include: [], nodes, ...rest }
}
