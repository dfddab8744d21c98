// The icon and colour of each status.

import type { TaskState } from "./terminal-state.ts"
import type { Span, Style } from "../terminal/style.ts"

const ICONS = {
  pending: ["·", "dim"],
  waiting: ["↻", "yellow"],
  dispatched: ["◌", "blue"],
  running: ["●", "cyan"],
  success: ["✓", "green"],
  failed: ["✗", "red"],
  skipped: ["-", "dim"],
  cancelled: ["■", "yellow"],
} as const satisfies Record<TaskState, Span>

export const iconOf = (state: TaskState): readonly [string, Style] => ICONS[state]
