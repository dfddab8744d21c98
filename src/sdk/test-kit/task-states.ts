// The tasks of a run, as a test sees them.

import type { RunId } from "../../core/model/ids.ts"
import type { RowKind } from "../../core/model/row.ts"
import type { TaskStatus } from "../../core/model/status.ts"
import type { Json } from "../../core/values/json.ts"
import { WholeOutputs } from "../../engine/services/whole-output.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"

/** A task of a run. */
export interface TaskState {
  readonly name: string
  /** Index of the item in each fan-out around and at the task, such as `1.2`; empty outside of fan-outs. */
  readonly path: string
  /** `fan` and `group`: all of a fan-out or group, without attempts of its own. */
  readonly kind: RowKind
  readonly status: TaskStatus
  readonly attempts: number
  readonly error: string | null
  readonly output: Json
  /** Start and end of the last attempt. */
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
}

/** Returns the tasks, fan-outs and groups of a run; none if the run does not exist. */
export const readTaskStates = async (store: ServerStore, objects: ObjectStore, runId: RunId): Promise<TaskState[]> => {
  const outputs = new WholeOutputs({ store, objects })
  const limit = Number.MAX_SAFE_INTEGER
  const rows = await store.listTasks({ runId, limit })
  const run = await store.getRun(runId)
  if (run === null) return []
  const workflow = await store.getVersion(run.versionId)
  for (const { node, path, kind } of [
    ...(await store.listRowStates(runId)),
    ...(await store.listInnerRowStates({ runId, limit })),
  ]) {
    const container = kind === "task" ? null : await store.getTask({ runId, name: workflow.nodes[node]!.name, path })
    if (container !== null) rows.push(container)
  }
  const states = rows.map(async (row) => {
    const { name, path, kind, status, attempt: attempts, error } = row
    const output = await outputs.readRow(workflow, row)
    return {
      name,
      path,
      kind,
      status,
      attempts,
      error,
      output,
      startedAt: dateOf(row.startedAt),
      finishedAt: dateOf(row.finishedAt),
    }
  })
  return await Promise.all(states)
}

const dateOf = (instant: string | null): Date | null => (instant === null ? null : new Date(instant))
