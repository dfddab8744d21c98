// A task is stopped only for a reason: its time is over, or that of a group around it, its run was stopped, its engine leaves, or somebody else has it.

import type { StopReason } from "../../../src/executors/executor.ts"
import type { TaskRecord } from "../database/table-reader.ts"
import { isOverdue } from "./group-timeouts.ts"
import { Violation } from "../trace.ts"
import { placeText, type Witnessed } from "./attempt-log.ts"
import type { World } from "../simulation.ts"

export const checkStop = (world: World, attempt: Witnessed, reason: StopReason): void => {
  if (isJust(world, attempt, reason)) return
  throw new Violation("no task is stopped without a reason", `${placeText(attempt)} #${attempt.number}: ${reason}`)
}

const rowOf = (world: World, { runId, sim, path }: Witnessed): TaskRecord =>
  world.tables.task(world.tables.run(runId)!.seq, sim.index, path)!

const isJust = (world: World, attempt: Witnessed, reason: StopReason): boolean => {
  const run = world.tables.run(attempt.runId)!
  const now = world.clock.now()
  switch (reason) {
    case "cancel":
      return world.commits.cancelled.has(attempt.runId) || isOverdue(world, rowOf(world, attempt))
    case "shutdown":
      return attempt.incarnation.draining
    case "lost": {
      const row = world.tables.task(run.seq, attempt.sim.index, attempt.path)
      return world.givenUp(attempt) || row?.attempt_id !== attempt.id
    }
    case "timeout": {
      const { timeoutMs, startTimeoutMs } = attempt.sim.node
      const [since, limit] = attempt.startedAt === null ? [attempt.launchedAt, startTimeoutMs] : [attempt.startedAt, timeoutMs]
      return (limit !== null && now >= since + limit) || world.mayStop(run)
    }
    default:
      return reason satisfies never
  }
}
