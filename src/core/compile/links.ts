// Dependencies within one scope: names looked up, edges both ways, cycles told with their path.

import { detectCycle } from "../rules/jobs.ts"
import type { Path } from "../model/problems.ts"
import type { Node } from "../model/workflow.ts"
import type { Context } from "./context.ts"
import { quote } from "./names.ts"
import type { NameScope } from "./name-scope.ts"

export interface Link {
  /** The task's name in its scope. */
  name: string
  node: number
  dependsOn: readonly string[]
  path: Path
}

export const linkScope = (context: Context, nodes: Node[], scope: NameScope, links: readonly Link[]): void => {
  for (const link of links) {
    const upstream = new Set<number>()
    for (const [i, name] of link.dependsOn.entries()) {
      const at = [...link.path, "depends_on", i]
      const target = scope.names.get(name)
      if (name === link.name) context.problems.add(at, `${quote(name)} depends on itself`)
      else if (target === undefined) {
        context.problems.add(
          at,
          `${quote(link.name)} depends on ${quote(name)}, which is not there`,
          context.nearest(name, scope.names.keys()),
        )
      } else upstream.add(target)
    }
    nodes[link.node]!.upstream = [...upstream].sort((a, b) => a - b)
  }
  // In order of the list, so that every `downstream` comes out ascending.
  for (const link of links) for (const upstream of nodes[link.node]!.upstream) nodes[upstream]!.downstream.push(link.node)
  reportCycles(context, nodes, links)
}

/** More than this many at once help nobody. */
const MAX_CYCLES = 10

const reportCycles = (context: Context, nodes: readonly Node[], links: readonly Link[]): void => {
  const byNode = new Map(links.map((link) => [String(link.node), link]))
  const edges = new Map(links.map((link) => [String(link.node), nodes[link.node]!.upstream.map(String)]))
  for (let told = 0; told < MAX_CYCLES; told++) {
    // One imagined job above all others reaches every cycle.
    const { has_cycle, cycle_path } = detectCycle("", [...edges.keys()], edges)
    if (!has_cycle) return
    const cycle = cycle_path.map((key) => byNode.get(key)!)
    const first = cycle.reduce((best, link, i) => (link.node < cycle[best]!.node ? i : best), 0)
    const turned = [...cycle.slice(first), ...cycle.slice(0, first)]
    const text = [...turned, turned[0]!].map((link) => link.name).join(" -> ")
    context.problems.add([...turned[0]!.path, "depends_on"], `a cycle: ${text} (each depends on the next)`)
    for (const key of cycle_path) edges.delete(key)
  }
}
