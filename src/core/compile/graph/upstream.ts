// Determines for many pairs of nodes whether one is upstream of the other. Propagates bit sets of targets in dependency order, 1,024
// targets at a time: the time is edges × targets / 1,024 and the memory is bounded for graphs of any size.

import type { Node } from "../../model/workflow.ts"

export interface UpstreamPair {
  from: number
  target: number
}

const SLICE = 1024
const WORDS = SLICE / 32

/** Returns for each pair whether `target` is upstream of `from`, directly or not. For nodes on a cycle only direct upstreams count. */
export const areUpstream = (nodes: readonly Pick<Node, "upstream">[], pairs: readonly UpstreamPair[]): boolean[] => {
  const results = pairs.map(({ from, target }) => nodes[from]!.upstream.includes(target))
  const open = pairs.flatMap((pair, i) => (results[i] === true ? [] : [{ ...pair, i }]))
  if (open.length === 0) return results
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
      if (own !== undefined) results[i] = (sets[from * WORDS + (own >> 5)]! & (1 << (own & 31))) !== 0
    }
  }
  return results
}

/** Orders nodes after all of their upstreams; leaves out nodes on or below a cycle. */
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
