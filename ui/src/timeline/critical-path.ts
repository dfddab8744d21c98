// The chain of instances that decided when the run ended: from the one that ended last, back over what each waited for last. Pure.

import type { Instance, RunState } from "../run/state.ts"
import type { Scopes } from "./scopes.ts"

/** Oldest first. Empty while nothing has ended. What was skipped is passed through. */
export const criticalPath = (state: RunState, scopes: Scopes): Instance[] => {
  let last: Instance | null = null
  for (const { hook, instances } of state.nodes) {
    if (hook) continue
    for (const instance of instances.values()) {
      if (instance.finishedAt !== null && instance.startedAt !== null && instance.finishedAt > (last?.finishedAt ?? 0)) {
        last = instance
      }
    }
  }
  const chain: Instance[] = []
  const seen = new Set<Instance>()
  while (last !== null && !seen.has(last)) {
    seen.add(last)
    if (last.startedAt !== null) chain.unshift(last)
    last = scopes.before(last)
  }
  return chain
}

export const instanceKey = ({ node, path }: Pick<Instance, "node" | "path">): string => `${node}/${path}`
