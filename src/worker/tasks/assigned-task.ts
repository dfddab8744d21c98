// An attempt that a server assigned to this worker.

import { StopSignal } from "../../engine/attempts/attempt-runner.ts"
import type { AttemptState } from "../../core/model/status.ts"
import type { Assignment, StopReason } from "../../executors/executor.ts"
import type { assignment } from "../../protocol/api/workers.ts"
import type { z } from "zod"

export type WireAssignment = z.output<typeof assignment>

export class AssignedTask extends StopSignal {
  readonly wire: WireAssignment
  /** True while the task occupies a slot: from its assignment until its work has ended, before its result is reported. */
  running = true
  stopping = false
  /** True if another worker holds the attempt now: nothing more is reported. */
  abandoned = false

  constructor(wire: WireAssignment) {
    super()
    this.wire = wire
  }

  get id(): string {
    return this.wire.attempt_id
  }

  /** The assignment as the server built it, without folders of this machine. */
  get work(): Assignment {
    return this.wire.work as unknown as Assignment
  }
}

const STATES = { cancel: "cancelled", timeout: "timeout", shutdown: "lost", lost: "lost" } as const satisfies Record<
  StopReason,
  AttemptState
>

/** Resolves when the task is stopped, with the state of an attempt that has not started. */
export const untilStopped = (task: AssignedTask): Promise<(typeof STATES)[StopReason]> =>
  new Promise((resolve) => {
    const { signal } = task
    const stop = (): void => resolve(STATES[signal.reason as StopReason])
    if (signal.aborted) stop()
    else signal.addEventListener("abort", stop, { once: true })
  })
