// The changes of a batch, one step for each attempt: a start that is followed by its end becomes one write. Whatever comes
// after an attempt's last word in the same batch is refused, as it would be one by one.

import type { Change, Fence } from "../../../core/model/change.ts"
import type { AttemptId } from "../../../core/model/ids.ts"

export type Started = Extract<Change, { kind: "started" }>
/** Chunks of the children of a container. */
export type Expand = Extract<Change, { kind: "expand" }>
export type Open = Extract<Change, { kind: "open_group" }>
export type Progressed = Extract<Change, { kind: "progress" }>
export type FinalChange = Exclude<Change, { kind: "started" | "progress" | "expand" | "open_group" }>

export interface AttemptChanges {
  fence: Fence
  start: Started | null
  /** The latest. */
  progress: Progressed | null
  expands: (Expand | Open)[]
  final: FinalChange | null
}

export const coalesceChanges = (changes: readonly Change[]): { steps: AttemptChanges[]; refused: Fence[] } => {
  const steps = new Map<AttemptId, AttemptChanges>()
  const refused: Fence[] = []
  for (const change of changes) {
    const fence = { row: change.row, attemptId: change.attemptId }
    let step = steps.get(change.attemptId)
    if (step === undefined)
      steps.set(change.attemptId, (step = { fence, start: null, progress: null, expands: [], final: null }))
    if (step.fence.row !== change.row || !add(step, change)) refused.push(fence)
  }
  return { steps: [...steps.values()], refused }
}

const add = (step: AttemptChanges, change: Change): boolean => {
  if (step.final !== null) return false
  switch (change.kind) {
    case "started":
      if (step.expands.length > 0) return false
      step.start ??= change
      return true
    case "progress":
      if (step.expands.length > 0) return false
      step.progress = change
      return true
    case "expand":
    case "open_group":
      if (step.start !== null) return false
      step.expands.push(change)
      return true
    default:
      step.final = change
      return true
  }
}
