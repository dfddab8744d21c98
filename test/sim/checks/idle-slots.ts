// Checks, when no event is left at an instant, that every task that can run does run, and that cancelled attempts and
// those of a lost lease are stopped.

import type { ReadyTask } from "../database/table-reader.ts"
import type { EngineProcess } from "../engine/engine-process.ts"
import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"
import { describeTask } from "./attempt-log.ts"
import { isInTimedOutGroup } from "./group-timeouts.ts"

/** Another engine may make a row ready just before the timer of this one is due. */
const SLACK_MS = 2000
const NOTICE_MS = 62_000

export const checkIdleSlots = (simulation: Simulation): void => {
  if (simulation.pendingWakes > 0) return
  const { engines } = simulation.scenario
  const sharedEngines = engines.filter((engine) => engine.privateRun === null).length
  const ready = [...simulation.tables.ready(), ...simulation.tables.readyJobs()]
  for (const process of simulation.processes) {
    checkLease(simulation, process)
    if (!isAtRest(simulation, process)) continue
    checkStopped(simulation, process)
    const { privateRun, concurrency } = engines[process.engineIndex]!
    if (privateRun === null && sharedEngines > 1) continue
    const ownRun = privateRun === null ? null : simulation.runIdOf(privateRun)
    const tasks = [...simulation.attemptLog.live].filter((attempt) => attempt.process === process).length
    const busy = tasks + simulation.jobs.countOn(process)
    const waiting = ready
      .filter((row) => (ownRun === null ? row.private === 0 : row.run_id === ownRun))
      .filter((row) => row.lane.endsWith("g") || busy < concurrency)
      .filter((row) => !simulation.queues.isBound(row.lane))
      .find((row) => hasWaited(simulation, row))
    if (waiting === undefined) continue
    const free = `${process.name} has ${concurrency - busy} free slots`
    throw new Violation("no slot stays idle", `row ${waiting.id} in ${waiting.lane} is ready and ${free}`)
  }
}

/** An engine whose lease was lost claims nothing until it has registered again. */
const isAtRest = ({ deadHolders, tables }: Simulation, process: EngineProcess): boolean =>
  process.alive &&
  process.started &&
  process.calls === 0 &&
  !process.failing &&
  !process.hasUnseenCommits &&
  !process.draining &&
  (process.holder === null || (!deadHolders.has(process.holder) && tables.holders().some(({ id }) => id === process.holder)))

/** A process that has registered again has stopped what it claimed under its earlier leases, and launches nothing of it any more. */
const checkLease = ({ attemptLog }: Simulation, process: EngineProcess): void => {
  for (const attempt of attemptLog.live) {
    if (attempt.process !== process || attempt.stopped || attempt.holder === null || attempt.holder === process.lease) continue
    throw new Violation("attempts of a lost lease are stopped", describeTask(attempt))
  }
}

/** Attempts of a cancelled run, and those in a group whose timeout has passed, must have been told to stop. */
const checkStopped = (simulation: Simulation, process: EngineProcess): void => {
  const { tables, attemptLog, commitLog, scenario } = simulation
  // Engines notice within a minute that the clock was set forward.
  const areTimeoutsNoticed = scenario.clockSteps.length === 0
  for (const attempt of attemptLog.live) {
    if (attempt.process !== process || attempt.stopped || attempt.simNode.node.hook !== null) continue
    if (commitLog.removals.has(attempt.runId)) continue
    const row = tables.task(tables.run(attempt.runId)!.seq, attempt.simNode.index, attempt.path)
    const hasTimedOut = areTimeoutsNoticed && row?.attempt_id === attempt.id && isInTimedOutGroup(simulation, row, SLACK_MS)
    if (!commitLog.cancelled.has(attempt.runId) && !hasTimedOut) continue
    throw new Violation("cancelled attempts are stopped", describeTask(attempt))
  }
}

/** Rows that another process made ready, which may have crashed since, have until their own timer is due. */
const hasWaited = ({ clock, scenario, readySince }: Simulation, row: ReadyTask): boolean => {
  if (scenario.engines.length === 1) return true
  const key = `${row.id}/${row.attempt}`
  const since = readySince.get(key) ?? clock.elapsed
  readySince.set(key, since)
  // Engines notice within a minute that the clock was set forward.
  return clock.elapsed - since > (scenario.clockSteps.length === 0 ? SLACK_MS : NOTICE_MS)
}
