// Records the notifications that the end of a task makes due. An outcome that a person sets has none.

import type { FinalStatus } from "../../../core/model/status.ts"
import { taskNotifications } from "../../../core/rules/runs/notifications.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { addNotifications } from "../admin/notifications.ts"
import type { LoadedRow } from "../cache/load-rows.ts"
import type { Tx } from "../tx.ts"

export const addTaskNotifications = (
  tx: Tx,
  row: Pick<LoadedRow, "runSeq" | "node" | "path" | "kind">,
  status: FinalStatus,
): void => {
  if (isJobRow(row.runSeq)) return
  const run = tx.runs.get(row.runSeq)
  addNotifications(tx, run.id, taskNotifications(tx.workflows.get(run.versionId), run, row, status))
}
