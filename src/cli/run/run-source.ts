// What the watching of a run reads beside its events: how long tasks took before, and what they write.

import { TAIL_LINES } from "../progress/summary.ts"
import type { RunId } from "../../core/model/ids.ts"
import { TaskLog } from "../../objects/logs/logs.ts"
import { attemptPrefix, type ObjectStore } from "../../objects/objects.ts"
import type { Store } from "../../store/contract/store.ts"

export interface RunSource {
  /** Seconds that an instance of each task took in earlier runs. */
  pastDurations(workflow: string): Promise<ReadonlyMap<string, number>>
  /** The last line that a running attempt has written; null: nothing yet. */
  lastLine(task: string, path: string, attempt: number): Promise<string | null>
  /** The last lines of the latest attempt. */
  tail(task: string, path: string): Promise<string[]>
}

export const storeSource = ({ store, objects }: { store: Store; objects: ObjectStore }, runId: RunId): RunSource => {
  const logs = new Map<string, TaskLog>()
  return {
    pastDurations: (workflow) => store.pastDurations(workflow),
    /** Looks the attempt up once, then only reads its log. */
    async lastLine(task, path, attempt) {
      const key = `${task}/${path}/${attempt}`
      let log = logs.get(key)
      if (log === undefined) {
        const row = await store.getTask({ runId, name: task, path })
        if (row?.attemptId == null || row.attempt !== attempt) return null
        log = new TaskLog(objects, attemptPrefix(runId, task, row.attemptId))
        logs.set(key, log)
      }
      return (await log.tailLines(1))[0]?.line ?? null
    },
    async tail(task, path) {
      const row = await store.getTask({ runId, name: task, path })
      if (row?.attemptId == null) return []
      const log = new TaskLog(objects, attemptPrefix(runId, task, row.attemptId))
      return (await log.tailLines(TAIL_LINES)).map(({ line }) => line)
    },
  }
}
