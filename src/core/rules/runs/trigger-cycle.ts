// Finds cycles of triggers: workflows that would start each other for ever.

/** A workflow whose runs start after those of another. */
export interface TriggerEdge {
  workflow: string
  upstream: string
}

/** Returns the workflows of a cycle through `name`, each after the one before it and `name` at both ends; null without a cycle. */
export const triggerCycle = (edges: readonly TriggerEdge[], name: string): string[] | null => {
  const upstreamOf = Map.groupBy(edges, ({ workflow }) => workflow)
  const followers = new Map<string, string | null>([[name, null]])
  for (const [workflow] of followers) {
    for (const { upstream } of upstreamOf.get(workflow) ?? []) {
      if (upstream === name) return [name, ...chain(followers, workflow)]
      if (!followers.has(upstream)) followers.set(upstream, workflow)
    }
  }
  return null
}

/** Returns a workflow, the one that follows it, and so on. */
const chain = (followers: ReadonlyMap<string, string | null>, from: string): string[] => {
  const names: string[] = []
  for (let each: string | null = from; each !== null; each = followers.get(each)!) names.push(each)
  return names
}

export const cycleMessage = (cycle: readonly string[]): string =>
  `the triggers of these workflows form a cycle: ${cycle.join(" → ")}; remove one of them from \`after\``
