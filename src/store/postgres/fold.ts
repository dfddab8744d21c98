// The changes of a batch, one step for each attempt: a start that is followed by its end becomes one write. Whatever comes
// after an attempt's last word in the same batch is refused, as it would be one by one.

import type { Change, Fence } from "../../core/change.ts"
import type { AttemptId } from "../../core/ids.ts"

export type Started = Extract<Change, { kind: "started" }>
export type Expand = Extract<Change, { kind: "expand" }>
export type Last = Exclude<Change, { kind: "started" | "expand" }>

export interface Step {
  fence: Fence
  start: Started | null
  expands: Expand[]
  last: Last | null
}

export const fold = (changes: readonly Change[]): { steps: Step[]; refused: Fence[] } => {
  const steps = new Map<AttemptId, Step>()
  const refused: Fence[] = []
  for (const change of changes) {
    const fence = { row: change.row, attemptId: change.attemptId }
    let step = steps.get(change.attemptId)
    if (step === undefined) steps.set(change.attemptId, (step = { fence, start: null, expands: [], last: null }))
    if (step.fence.row !== change.row || !add(step, change)) refused.push(fence)
  }
  return { steps: [...steps.values()], refused }
}

const add = (step: Step, change: Change): boolean => {
  if (step.last !== null) return false
  switch (change.kind) {
    case "started":
      if (step.expands.length > 0) return false
      step.start ??= change
      return true
    case "expand":
      if (step.start !== null) return false
      step.expands.push(change)
      return true
    default:
      step.last = change
      return true
  }
}
