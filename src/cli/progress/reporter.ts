// How the progress of a run is told. One of three: a live view on a terminal, plain lines, JSON lines.

import type { RunEvent } from "./model.ts"

export interface Reporter {
  start(): void
  /** Called for each event, after the model has taken it. */
  event(event: RunEvent): void
  /** For the person watching, such as what the next Ctrl-C does. */
  note(text: string): void
  warn(text: string): void
  /** Shows the last state; the summary may follow. A second call does nothing. */
  stop(): void
}
