// Records the notifications that the ends of tasks make due. An outcome that a person sets has none.

import { taskNotifications } from "../../../core/rules/runs/notifications.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { addNotifications, type NewNotifications } from "../admin/notifications.ts"
import type { RunInfo } from "../cache/cache.ts"
import type { Workflows } from "../cache/workflows.ts"
import type { Tx } from "../tx.ts"
import type { CancelledRow } from "./cancel-pending.ts"
import type { Finish } from "./finish.ts"

export const notificationsOfFinish = (workflows: Workflows, { inFlight, status }: Finish): NewNotifications => ({
  runId: inFlight.runId,
  notifications: isJobRow(inFlight.runSeq)
    ? []
    : taskNotifications(workflows.getLoaded(inFlight.versionId), inFlight, inFlight, status),
})

export const addFinishNotifications = (tx: Tx, finishes: readonly Finish[]): Promise<void> =>
  addNotifications(
    tx,
    finishes.map((finish) => notificationsOfFinish(tx.workflows, finish)),
  )

/** Adds the notifications of cancelled tasks. The caller has loaded the workflows of the runs. */
export const addCancelNotifications = (
  tx: Tx,
  rows: readonly CancelledRow[],
  runs: ReadonlyMap<number, RunInfo>,
): Promise<void> =>
  addNotifications(
    tx,
    rows.map((row) => {
      const run = runs.get(row.run_seq)!
      return { runId: run.id, notifications: taskNotifications(tx.workflows.getLoaded(run.versionId), run, row, "cancelled") }
    }),
  )
