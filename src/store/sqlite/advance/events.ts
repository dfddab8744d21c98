// Emits one event per change of a run's or a task's status, in order. A job's row emits the status of the job.

import type { RunId } from "../../../core/model/ids.ts"
import type { RunStatus } from "../../../core/model/status.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { type TaskEvent, taskEvent } from "../../shared/events.ts"
import type { StoreEvent } from "../../contract/store.ts"
import type { LoadedRow } from "../cache/load-rows.ts"
import { updateAndEmitJob } from "../jobs/job-status.ts"
import type { Tx } from "../tx.ts"

type EmittingRow = { runSeq: number; node: number; path: string } & Partial<Pick<LoadedRow, "id" | "jobName" | "lane">>

export const emitTask = (tx: Tx, row: EmittingRow, event: TaskEvent): void => {
  const { runSeq, node, path } = row
  if (isJobRow(runSeq)) return updateAndEmitJob(tx, row, event)
  const { id: runId, versionId } = tx.runs.get(runSeq)
  tx.events.push(taskEvent({ runId, task: tx.workflows.get(versionId).nodes[node]!.name, path }, event))
}

export const emitRun = (tx: Tx, runId: RunId, status: RunStatus, error: string | null): void => {
  const event: StoreEvent = { type: "run", runId, status, at: tx.at }
  if (error !== null) event.error = error
  tx.events.push(event)
}
