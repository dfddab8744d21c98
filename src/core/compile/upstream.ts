// "Is it upstream?" for many pairs at once. Bit sets over the tasks that are asked for, in slices, walked once in dependency
// order: the cost is edges × pairs / 1,024, and the memory bounded, for graphs of any size.

import type { Node } from "../model/workflow.ts"

export interface UpstreamPair {
  from: number
  target: number
}

const SLICE = 1024
const WORDS = SLICE / 32

/** For each pair, whether `target` is upstream of `from`, directly or not. Nodes on a cycle reach nothing. */
export const areUpstream = (nodes: readonly Pick<Node, "upstream">[], pairs: readonly UpstreamPair[]): boolean[] => {
  const answers = pairs.map(({ from, target }) => nodes[from]!.upstream.includes(target))
  const open = pairs.flatMap((pair, i) => (answers[i] === true ? [] : [{ ...pair, i }]))
  if (open.length === 0) return answers
  const targets = [...new Set(open.map((pair) => pair.target))]
  const order = dependencyOrder(nodes)
  for (let start = 0; start < targets.length; start += SLICE) {
    const bit = new Map(targets.slice(start, start + SLICE).map((target, i) => [target, i]))
    const sets = new Uint32Array(nodes.length * WORDS)
    for (const node of order) {
      for (const upstream of nodes[node]!.upstream) {
        for (let w = 0; w < WORDS; w++) sets[node * WORDS + w]! |= sets[upstream * WORDS + w]!
        const own = bit.get(upstream)
        if (own !== undefined) sets[node * WORDS + (own >> 5)]! |= 1 << (own & 31)
      }
    }
    for (const { from, target, i } of open) {
      const own = bit.get(target)
      if (own !== undefined) answers[i] = (sets[from * WORDS + (own >> 5)]! & (1 << (own & 31))) !== 0
    }
  }
  return answers
}

/** Every node after all of its upstreams; nodes on or below a cycle are left out. */
const dependencyOrder = (nodes: readonly Pick<Node, "upstream">[]): number[] => {
  const left = nodes.map((node) => node.upstream.length)
  const downstream: number[][] = nodes.map(() => [])
  nodes.forEach((node, i) => node.upstream.forEach((upstream) => downstream[upstream]!.push(i)))
  const order = nodes.flatMap((node, i) => (node.upstream.length === 0 ? [i] : []))
  for (let i = 0; i < order.length; i++) {
    for (const next of downstream[order[i]!]!) if (--left[next]! === 0) order.push(next)
  }
  return order
}
