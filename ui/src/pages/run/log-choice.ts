// Selects the log to show: the one in the address, otherwise the most likely one. Pure.

import type { Instance, RunNode, RunState } from "../../run/state.ts"
import { comparePaths } from "../../run/status.ts"

export interface LogChoice {
  node: RunNode
  instance: Instance | null
  /** 0 before the first attempt. */
  attempt: number
  /** The attempt may still write. */
  live: boolean
}

/** Preferred statuses in order; among equals the latest. */
const LIKELY = ["failed", "running", "dispatched", "success", "cancelled", "skipped", "pending"] as const

/** The selection in the address. */
export interface Asked {
  task?: string | undefined
  path?: string | undefined
  attempt?: string | undefined
}

export const chooseLog = (state: RunState, asked: Asked): LogChoice | null => {
  const node = (asked.task === undefined ? undefined : state.byName.get(asked.task)) ?? likelyNode(state)
  if (node === undefined) return null
  const named = asked.path === undefined ? undefined : node.instances.get(asked.path)
  const instance = named ?? likely([...node.instances.values()]) ?? null
  const latest = instance?.attempt ?? 0
  const wanted = Number(asked.attempt ?? latest)
  const attempt = Number.isInteger(wanted) && wanted >= 1 && wanted <= latest ? wanted : latest
  const alive = instance?.status === "running" || instance?.status === "dispatched"
  return { node, instance, attempt, live: alive && attempt === latest }
}

const likelyNode = (state: RunState): RunNode | undefined => {
  const instance = likely(state.nodes.flatMap((node) => [...node.instances.values()]))
  return instance === undefined ? state.nodes.find((node) => !node.isGroup) : state.nodes[instance.node]
}

const likely = (instances: readonly Instance[]): Instance | undefined => {
  for (const status of LIKELY) {
    const same = instances.filter((each) => each.status === status)
    if (same.length > 0) return same.reduce((a, b) => ((b.startedAt ?? 0) > (a.startedAt ?? 0) ? b : a))
  }
  return undefined
}

export const sortedPaths = (node: RunNode): string[] => [...node.instances.keys()].toSorted(comparePaths)
