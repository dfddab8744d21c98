// Where rows stand. A path is the indexes of the fan-outs around and at a row, outermost first: `3`, `1.2`. Rows inside a group
// carry the path of the group's own row, so what stands side by side shares its path, and whatever lies further out has a
// beginning of it.

import { type CompiledWorkflow, GROUP_EXECUTOR, type Node } from "./workflow.ts"

interface Shape {
  /** Of each node, how many indexes the paths of its scope have: one for each fanned group around it. */
  depths: number[]
  /** The nodes directly inside each group, ascending. */
  members: Map<number, number[]>
  /** Of each node, whether it is, or lies in, a group with a timeout. */
  timed: boolean[]
}

const known = new WeakMap<CompiledWorkflow, Shape>()

const shapeOf = (workflow: CompiledWorkflow): Shape => {
  let shape = known.get(workflow)
  if (shape !== undefined) return shape
  const depths: number[] = []
  const members = new Map<number, number[]>()
  const timed: boolean[] = []
  // Groups come before what is in them.
  for (const [i, node] of workflow.nodes.entries()) {
    const { group } = node
    timed.push((isGroup(node) && node.timeoutMs !== null) || (group !== null && timed[group]!))
    depths.push(group === null ? 0 : depths[group]! + (workflow.nodes[group]!.fan === undefined ? 0 : 1))
    if (group === null) continue
    const inside = members.get(group)
    if (inside === undefined) members.set(group, [i])
    else inside.push(i)
  }
  known.set(workflow, (shape = { depths, members, timed }))
  return shape
}

export const groupPathLengths = (workflow: CompiledWorkflow): readonly number[] => shapeOf(workflow).depths

export const groupMembers = (workflow: CompiledWorkflow, group: number): readonly number[] =>
  shapeOf(workflow).members.get(group) ?? []

/** Whether it is, or lies in, a group with a timeout: only such rows can be ended by one. */
export const hasGroupTimeout = (workflow: CompiledWorkflow, index: number): boolean => shapeOf(workflow).timed[index]!

/** The first `depth` indexes of a path. */
export const pathPrefix = (path: string, depth: number): string => {
  if (depth === 0) return ""
  let end = -1
  for (let i = 0; i < depth; i++) {
    end = path.indexOf(".", end + 1)
    if (end === -1) return path
  }
  return path.slice(0, end)
}

/** The last index of a path: `3` of `1.3`. */
export const lastIndex = (path: string): number => Number(path.slice(path.lastIndexOf(".") + 1))

/** One of the instances of a fan-out, as against the row that stands for them all. */
export const isInstance = (node: Pick<Node, "fan">, kind: "task" | "fan" | "group"): boolean =>
  node.fan !== undefined && kind !== "fan"

export const isGroup = (node: Pick<Node, "executor">): boolean => node.executor === GROUP_EXECUTOR

/** The name within its scope, as expressions write it: `load` of `region.load`. Hooks keep theirs. */
export const shortName = (node: Pick<Node, "name" | "group">): string =>
  node.group === null ? node.name : node.name.slice(node.name.lastIndexOf(".") + 1)

/** `each`, `region.load[1.2]`: how a row is called in messages. */
export const taskDisplayName = (name: string, path: string): string => (path === "" ? name : `${name}[${path}]`)
