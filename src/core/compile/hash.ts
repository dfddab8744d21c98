// The content hash of a compiled workflow: the same definition is the same version, however it is written. Formatting,
// comments and the order of keys do not count.

import { createHash } from "node:crypto"
import { isObject } from "../model/json.ts"
import type { CompiledWorkflow } from "../model/workflow.ts"

export const contentHash = (workflow: CompiledWorkflow): string =>
  createHash("sha256")
    .update(canonicalJson(byName(workflow)))
    .digest("hex")

/** Tasks and params by name instead of by place: their order in the file means nothing. */
const byName = (workflow: CompiledWorkflow): unknown => {
  const names = (places: number[]): string[] => places.map((place) => workflow.nodes[place]!.name).sort()
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

/** JSON with the keys of every object in order. The order of lists counts. */
const canonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`
  if (!isObject(value)) return JSON.stringify(value)
  const keys = Object.keys(value).filter((key) => value[key] !== undefined)
  return `{${keys
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key])}`)
    .join(",")}}`
}
