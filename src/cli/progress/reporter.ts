// Reports the progress of a run. Implementations: a live view on a terminal, plain lines, JSON lines.

import type { RunEvent } from "./terminal-state.ts"

export interface Reporter {
  start(): void
  /** Called for each event, after it was applied to the run view. */
  event(event: RunEvent): void
  /** Shows a hint, such as the effect of the next Ctrl-C. */
  note(text: string): void
  warn(text: string): void
  /** Shows the last state. A second call has no effect. */
  stop(): void
}
