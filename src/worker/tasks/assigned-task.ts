// An attempt that a server gave to this worker.

import { StopSignal } from "../../engine/attempts/attempt-runner.ts"
import type { AttemptState } from "../../core/model/status.ts"
import type { Assignment, StopReason } from "../../executors/executor.ts"
import type { assignment } from "../../protocol/api/workers.ts"
import type { z } from "zod"

export type WireAssignment = z.output<typeof assignment>

export class AssignedTask extends StopSignal {
  readonly wire: WireAssignment
  /** It takes a slot: from its arrival to the end of its work, not of its report. */
  running = true
  stopping = false
  /** Others have it now: nothing is told of it any more. */
  dropped = false

  constructor(wire: WireAssignment) {
    super()
    this.wire = wire
  }

  get id(): string {
    return this.wire.attempt_id
  }

  /** As the server made it, folders left out. */
  get work(): Assignment {
    return this.wire.work as unknown as Assignment
  }
}

const STATES = { cancel: "cancelled", timeout: "timeout", shutdown: "lost", lost: "lost" } as const satisfies Record<
  StopReason,
  AttemptState
>

/** Resolves, when it is told to stop, with what becomes of it if it has not begun. */
export const untilStopped = (task: AssignedTask): Promise<(typeof STATES)[StopReason]> =>
  new Promise((resolve) => {
    const { signal } = task
    const stop = (): void => resolve(STATES[signal.reason as StopReason])
    if (signal.aborted) stop()
    else signal.addEventListener("abort", stop, { once: true })
  })
