// A ProgressSource over the stores of this process.

import type { ProgressSource } from "./source.ts"
import { TAIL_LINES } from "./summary.ts"
import type { RunId } from "../../core/model/ids.ts"
import { TaskLog } from "../../objects/logs/task-log.ts"
import { attemptPrefix, type ObjectStore } from "../../objects/objects.ts"
import type { Store } from "../../store/contract/store.ts"

export const storeSource = ({ store, objects }: { store: Store; objects: ObjectStore }, runId: RunId): ProgressSource => {
  const logs = new Map<string, TaskLog>()
  return {
    pastDurations: (workflow) => store.pastDurations(workflow),
    // Queries the store once per attempt; later calls only read the log.
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
    async tailLines(task, path) {
      const row = await store.getTask({ runId, name: task, path })
      if (row?.attemptId == null) return []
      const log = new TaskLog(objects, attemptPrefix(runId, task, row.attemptId))
      return (await log.tailLines(TAIL_LINES)).map(({ line }) => line)
    },
  }
}
