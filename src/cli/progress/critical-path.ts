// The critical path of a run, by task.

import type { RunView, TaskView } from "./run-view.ts"
import { criticalPath, latestFinished } from "../../core/model/critical-path.ts"

export interface Step {
  name: string
  startedAt: number
  finishedAt: number
}

export const criticalSteps = (view: RunView): Step[] => {
  const last = latestFinished(view.tasks.filter(({ hook, depth }) => !hook && depth === 0))
  const upstream = (task: TaskView): TaskView | null =>
    latestFinished(view.workflow.nodes[task.node]!.upstream.map((index) => view.tasks[index]!))
  return criticalPath(last, upstream).flatMap(({ name, startedAt, finishedAt }) =>
    startedAt === null || finishedAt === null ? [] : [{ name, startedAt, finishedAt }],
  )
}
