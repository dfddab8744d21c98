// Content hash of a compiled workflow, which identifies its version. Formatting, comments and the order of keys do not change it.

import { createHash } from "node:crypto"
import { isObject } from "../values/json.ts"
import type { CompiledWorkflow } from "../model/workflow.ts"

export const contentHash = (workflow: CompiledWorkflow): string =>
  createHash("sha256")
    .update(canonicalJson(byName(workflow)))
    .digest("hex")

/** Replaces indexes of tasks and params by names: their order in the file is not significant. */
const byName = (workflow: CompiledWorkflow): unknown => {
  const names = (indexes: number[]): string[] => indexes.map((index) => workflow.nodes[index]!.name).sort()
  const nodes = new Map<string, unknown>()
  for (const node of workflow.nodes) {
    nodes.set(node.name, {
      ...node,
      group: node.group === null ? null : workflow.nodes[node.group]!.name,
      upstream: names(node.upstream),
      downstream: names(node.downstream),
      reads: names(node.reads),
    })
  }
  const params = new Map(workflow.params.map((param) => [param.name, param]))
  return { ...workflow, nodes: Object.fromEntries(nodes), params: Object.fromEntries(params) } satisfies Record<string, unknown>
}

/** Returns JSON with sorted keys. The order of lists is kept. */
const canonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`
  if (!isObject(value)) return JSON.stringify(value)
  const keys = Object.keys(value).filter((key) => value[key] !== undefined)
  return `{${keys
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key])}`)
    .join(",")}}`
}
