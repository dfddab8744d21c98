// The chain of tasks that determined when the run ended: from the task that ended last, back over the upstream that ended
// last each time. A task that never ran (skipped) is passed through.

import type { RunView, TaskView } from "./model.ts"

export interface Step {
  name: string
  startedAt: number
  finishedAt: number
}

const latest = (tasks: TaskView[]): TaskView | undefined => {
  let found: TaskView | undefined
  for (const task of tasks) {
    if (task.finishedAt !== null && (found === undefined || task.finishedAt > found.finishedAt!)) found = task
  }
  return found
}

export const criticalPath = (view: RunView): Step[] => {
  const steps: Step[] = []
  let task = latest(view.tasks.filter(({ hook, depth }) => !hook && depth === 0))
  while (task !== undefined) {
    const { name, startedAt, finishedAt } = task
    if (startedAt !== null && finishedAt !== null) steps.unshift({ name, startedAt, finishedAt })
    task = latest(view.workflow.nodes[task.node]!.upstream.map((index) => view.tasks[index]!))
  }
  return steps
}
