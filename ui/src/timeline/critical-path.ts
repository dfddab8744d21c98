// The critical path of a run, by instance.

import { criticalPath, latestFinished } from "../../../src/core/model/critical-path.ts"
import type { Instance, RunState } from "../run/state.ts"
import type { Scopes } from "./scopes.ts"

/** Returns the instances of the critical path, oldest first; none while nothing has finished. */
export const criticalInstances = (state: RunState, scopes: Scopes): Instance[] => {
  const instances = state.nodes.filter(({ hook }) => !hook).flatMap((node) => [...node.instances.values()])
  const last = latestFinished(instances.filter(({ startedAt }) => startedAt !== null))
  return criticalPath(last, (instance) => scopes.before(instance))
}

export const instanceKey = ({ node, path }: Pick<Instance, "node" | "path">): string => `${node}/${path}`
