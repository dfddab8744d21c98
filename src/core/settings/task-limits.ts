// Limits of every process of a task, in ork.yaml or as JSON in ORK_TASK_LIMITS.

import { mapSetting } from "./map-setting.ts"
import { parseMemory } from "../values/quantities.ts"

export interface TaskLimits {
  /** Processes and threads of the user that tasks run as. */
  processes: number
  /** Bytes of one process; null: as many as the machine has. */
  memoryBytes: number | null
  /** Open files of one process. */
  files: number
}

export const DEFAULT_TASK_LIMITS: TaskLimits = { processes: 16_384, memoryBytes: null, files: 65_536 }

export const TASK_LIMITS_HINT = "a map with processes and files (whole numbers) and memory (such as 4Gi)"

/** Parses the setting; null when it is not valid. */
export const parseTaskLimits = (value: unknown): TaskLimits | null => {
  const map = mapSetting(value)
  if (map === null) return null
  const limits = { ...DEFAULT_TASK_LIMITS }
  for (const [field, limit] of Object.entries(map)) {
    if (field === "processes" && isCount(limit)) limits.processes = limit
    else if (field === "files" && isCount(limit)) limits.files = limit
    else if (field === "memory" && parseMemory(limit) !== null) limits.memoryBytes = parseMemory(limit)
    else return null
  }
  return limits
}

const isCount = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value) && value >= 16
