// Addresses of rows inside a run. A path lists the indexes of the fan-outs around and at a row, outermost first: `3`, `1.2`. Rows
// inside a group carry the path of the group's own row: siblings share a path, and rows further out have a prefix of it.

import type { RowKind } from "./row.ts"
import { type CompiledWorkflow, GROUP_EXECUTOR, type Node, rootNodes } from "./workflow.ts"

interface GroupLayout {
  /** For each node: how many fanned groups lie around it, which is the length of its path without its own index. */
  pathLengths: number[]
  /** For each group: the nodes directly inside it, ascending. */
  members: Map<number, number[]>
  /** For each node: true when it is, or lies in, a group with a timeout. */
  timed: boolean[]
}

const layouts = new WeakMap<CompiledWorkflow, GroupLayout>()

const layoutOf = (workflow: CompiledWorkflow): GroupLayout => {
  let layout = layouts.get(workflow)
  if (layout === undefined) layouts.set(workflow, (layout = computeLayout(workflow)))
  return layout
}

const computeLayout = ({ nodes }: CompiledWorkflow): GroupLayout => {
  const pathLengths: number[] = []
  const members = new Map<number, number[]>()
  const timed: boolean[] = []
  // Groups precede their members in `nodes`.
  for (const [i, node] of nodes.entries()) {
    const { group } = node
    timed.push((isGroup(node) && node.timeoutMs !== null) || (group !== null && timed[group]!))
    pathLengths.push(group === null ? 0 : pathLengths[group]! + (nodes[group]!.fan === undefined ? 0 : 1))
    if (group === null) continue
    const siblings = members.get(group)
    if (siblings === undefined) members.set(group, [i])
    else siblings.push(i)
  }
  return { pathLengths, members, timed }
}

/** Returns the nodes directly inside a group, or for null the top-level tasks, ascending. */
export const groupMembers = (workflow: CompiledWorkflow, group: number | null): readonly number[] =>
  group === null ? rootNodes(workflow) : (layoutOf(workflow).members.get(group) ?? [])

/** Returns the groups around a node, innermost first. */
export const groupsAround = ({ nodes }: CompiledWorkflow, index: number): number[] => {
  const groups: number[] = []
  for (let { group } = nodes[index]!; group !== null; group = nodes[group]!.group) groups.push(group)
  return groups
}

/** Returns true when the node is, or lies in, a group with a timeout: only such rows can be stopped by one. */
export const isUnderGroupTimeout = (workflow: CompiledWorkflow, index: number): boolean => layoutOf(workflow).timed[index]!

/**
 * Returns the path of the row of node `index` (of a fan-out, its container) that a row at `path` sees: `1` for a node one fan-out further
 * out than a row at `1.2`.
 */
export const enclosingPath = (workflow: CompiledWorkflow, index: number, path: string): string =>
  pathPrefix(path, layoutOf(workflow).pathLengths[index]!)

/** Returns the first `length` indexes of a path. */
const pathPrefix = (path: string, length: number): string => {
  if (length === 0) return ""
  let end = -1
  for (let i = 0; i < length; i++) {
    end = path.indexOf(".", end + 1)
    if (end === -1) return path
  }
  return path.slice(0, end)
}

/** Returns the last index of a path: 3 for `1.3`. */
export const lastIndex = (path: string): number => Number(path.slice(path.lastIndexOf(".") + 1))

/** Returns the key of a row within its run: `4/1.3`. */
export const taskKey = (node: number, path: string): string => `${node}/${path}`

/** Returns true for one instance of a fan-out, false for its container. */
export const isInstance = (node: Pick<Node, "fan">, kind: RowKind): boolean => node.fan !== undefined && kind !== "fan"

export const isGroup = (node: Pick<Node, "executor">): boolean => node.executor === GROUP_EXECUTOR

/** Returns the name of a task inside its group, as expressions write it: `load` for `region.load`. Hooks keep their name. */
export const shortName = (node: Pick<Node, "name" | "group">): string =>
  node.group === null ? node.name : node.name.slice(node.name.lastIndexOf(".") + 1)

/** Returns the name of a row in messages: `each`, `region.load[1.2]`. */
export const taskDisplayName = (name: string, path: string): string => (path === "" ? name : `${name}[${path}]`)
