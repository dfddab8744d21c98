// Names of tasks and their instances in cases: `load`, `load[0]`, `region[1].shop[0].count`.

import { type CompiledWorkflow, type Node } from "../../core/model/workflow.ts"

/** Returns the node that a key names, and the path of the instance; null: there is none. */
export const nodeOfKey = (workflow: CompiledWorkflow, key: string): { node: Node; path: string } | null => {
  const indexes = [...key.matchAll(/\[(\d+)\]/g)].map(([, index]) => index!)
  const name = key.replaceAll(/\[\d+\]/g, "")
  const node = workflow.nodes.find((each) => each.name === name)
  return node === undefined ? null : { node, path: indexes.join(".") }
}

/** Returns the key of an instance. */
export const keyOf = ({ nodes }: CompiledWorkflow, name: string, path: string): string => {
  const indexes = path === "" ? [] : path.split(".")
  const chain: Node[] = []
  for (let node = nodes.find((each) => each.name === name); node !== undefined;) {
    chain.unshift(node)
    node = node.group === null ? undefined : nodes[node.group]
  }
  return chain
    .map((node) => {
      const short = node.name.slice(node.group === null ? 0 : nodes[node.group]!.name.length + 1)
      return node.fan === undefined || indexes.length === 0 ? short : `${short}[${indexes.shift()}]`
    })
    .join(".")
}
