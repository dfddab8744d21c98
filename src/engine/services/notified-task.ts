// The task that a notification is about, as its receiver sees it.

import type { RunId } from "../../core/model/ids.ts"
import type { TaskStatus } from "../../core/model/status.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { hasOpenRow } from "../../core/rules/runs/notifications.ts"
import type { RunRow, Store } from "../../store/contract/store.ts"

/** Fields that have no value, such as those of a task in a group without instances yet, are null. */
export type NotifiedTask = {
  name: string
  /** Indexes of the instances of groups around the task. */
  path: string
  label: string | null
  status: TaskStatus | null
  attempt: number | null
  error: string | null
  started_at: string | null
  finished_at: string | null
}

const PAGE = 500

export const readNotifiedTask = async (
  store: Pick<Store, "getTask">,
  query: { runId: RunId; name: string; path: string },
): Promise<NotifiedTask> => {
  const { name, path } = query
  const row = await store.getTask(query)
  if (row === null)
    return { name, path, label: null, status: null, attempt: null, error: null, started_at: null, finished_at: null }
  const { label, status, attempt, error, startedAt, finishedAt } = row
  return { name, path, label, status, attempt, error, started_at: startedAt, finished_at: finishedAt }
}

/** Returns whether a task of a running run has not ended, in any instance of the groups around it. */
export const isTaskOpen = async (
  store: Pick<Store, "listRowStates" | "listInnerRowStates">,
  run: RunRow,
  workflow: CompiledWorkflow,
  node: number,
): Promise<boolean> => {
  if (hasOpenRow(workflow, node, await store.listRowStates(run.id))) return true
  if (workflow.nodes[node]!.group === null) return false
  for (let after = 0; ;) {
    const page = await store.listInnerRowStates({ runId: run.id, after, limit: PAGE })
    if (hasOpenRow(workflow, node, page)) return true
    if (page.length < PAGE) return false
    after = page.at(-1)!.row
  }
}
