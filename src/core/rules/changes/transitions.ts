// The kinds and statuses of task rows to which each change applies. Both stores reject a change whose row is in any other state: SQLite
// by `isLegal`, Postgres by conditions that store/shared/source-state.ts generates. docs/architecture.md draws the resulting states.

import type { Change } from "../../model/change.ts"
import type { RowKind } from "../../model/row.ts"
import type { TaskStatus } from "../../model/status.ts"

export interface Transition {
  /** Kinds of rows that the change applies to. */
  kinds: readonly RowKind[]
  from: readonly TaskStatus[]
  /** true: a running row must also be waiting, that is, running without a slot. */
  runningMustWait: boolean
}

const ANY_KIND = ["task", "fan", "group"] as const
const CONTAINER = ["fan", "group"] as const
const IN_FLIGHT = ["dispatched", "running"] as const

export const TRANSITIONS = {
  // Reports about an attempt in flight. `started` may arrive twice: the second one changes nothing.
  started: { kinds: ["task"], from: IN_FLIGHT, runningMustWait: false },
  progress: { kinds: ["task"], from: IN_FLIGHT, runningMustWait: false },
  finish: { kinds: ["task"], from: IN_FLIGHT, runningMustWait: false },
  retry: { kinds: ["task"], from: IN_FLIGHT, runningMustWait: false },
  // The gate starts to wait, an attempt in flight goes on to wait, or a resumed row waits again.
  wait: { kinds: ["task"], from: ["pending", "dispatched", "running"], runningMustWait: false },
  // The holder returns a claim that it has not started. A running row was started, unless it waits and was resumed.
  release: { kinds: ANY_KIND, from: ["pending", "dispatched", "running"], runningMustWait: true },
  // The gate returns a resumed row to its lane.
  requeue: { kinds: ["task"], from: ["running"], runningMustWait: true },
  // Decisions of the gate about a pending row that it has claimed.
  enqueue: { kinds: ["task"], from: ["pending"], runningMustWait: false },
  skip: { kinds: ANY_KIND, from: ["pending"], runningMustWait: false },
  fail: { kinds: ANY_KIND, from: ["pending"], runningMustWait: false },
  reuse: { kinds: ANY_KIND, from: ["pending"], runningMustWait: false },
  expand: { kinds: ["fan"], from: ["pending"], runningMustWait: false },
  open_group: { kinds: ["group"], from: ["pending"], runningMustWait: false },
  gather: { kinds: CONTAINER, from: ["pending"], runningMustWait: false },
} as const satisfies Record<Change["kind"], Transition>

export interface SourceRow {
  kind: RowKind
  status: TaskStatus
  /** The row runs without a slot. */
  isWaiting: boolean
}

/** Returns whether a change of this kind may be applied to a row in this state. The caller checks the fence. */
export const isLegal = (change: Change["kind"], { kind, status, isWaiting }: SourceRow): boolean => {
  const { kinds, from, runningMustWait }: Transition = TRANSITIONS[change]
  return kinds.includes(kind) && from.includes(status) && (status !== "running" || isWaiting || !runningMustWait)
}
