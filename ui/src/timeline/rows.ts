// The rows of the timeline: tasks in graph order, groups above their tasks, instances below their fan-out when it is
// opened. Pure.

import type { Instance, RunNode, RunState } from "../run/state.ts"
import { comparePaths } from "../run/status.ts"

export interface Row {
  id: string
  node: RunNode
  /** null for the task as a whole. */
  instance: Instance | null
  depth: number
  /** Whether the row can be opened, and whether it is open. */
  fold: "open" | "closed" | null
}

/** Fan-outs with at most this many instances are initially open. */
const OPEN_INSTANCES = 6

const isOpenAtFirst = (node: RunNode): boolean => node.isGroup || node.instances.size <= OPEN_INSTANCES

/** Returns the rows of the timeline. `toggled` contains the names of rows that are not in their initial state. */
export const rowsOf = (state: RunState, toggled: ReadonlySet<string>): Row[] => {
  const rows: Row[] = []
  const isOpen = (node: RunNode): boolean => isOpenAtFirst(node) !== toggled.has(node.name)
  const add = (node: RunNode, depth: number): void => {
    const many = node.fanOut !== null || node.around > 0
    const foldable = node.isGroup ? node.members.length > 0 : many && node.instances.size > 0
    const open = foldable && isOpen(node)
    const only = many || node.isGroup ? null : (node.instances.get("") ?? null)
    rows.push({ id: node.name, node, instance: only, depth, fold: foldable ? (open ? "open" : "closed") : null })
    if (!open) return
    if (node.isGroup) {
      for (const member of inOrder(state, node.members)) add(member, depth + 1)
      return
    }
    for (const instance of sortedOf(node)) {
      rows.push({ id: `${node.name}[${instance.path}]`, node, instance, depth: depth + 1, fold: null })
    }
  }
  const top = state.nodes.filter(({ group }) => group === null)
  const [hooks, tasks] = [top.filter(({ hook }) => hook), top.filter(({ hook }) => !hook)]
  for (const node of inOrder(
    state,
    tasks.map(({ index }) => index),
  )) {
    add(node, 0)
  }
  for (const node of hooks) if (node.instances.size > 0) add(node, 0)
  return rows
}

const sorted = new WeakMap<RunNode, Instance[]>()

/** Sorts again only when the number of instances changes, because instances are never removed. */
const sortedOf = (node: RunNode): readonly Instance[] => {
  const known = sorted.get(node)
  if (known?.length === node.instances.size) return known
  const found = [...node.instances.values()].sort((a, b) => comparePaths(a.path, b.path))
  sorted.set(node, found)
  return found
}

/** Sorts tasks after their upstream tasks, otherwise in the order of the definition. */
const inOrder = (state: RunState, indexes: readonly number[]): RunNode[] => {
  const left = new Map(indexes.map((index) => [index, state.nodes[index]!.upstream.length]))
  const ordered: RunNode[] = []
  let next = indexes.filter((index) => left.get(index) === 0)
  while (next.length > 0) {
    const following: number[] = []
    for (const index of next) {
      const node = state.nodes[index]!
      ordered.push(node)
      for (const down of node.downstream) {
        const count = left.get(down)! - 1
        left.set(down, count)
        if (count === 0) following.push(down)
      }
    }
    next = following
  }
  return ordered
}
