// Checks what must hold when a task is launched, from the committed tables and the attempt log.

import { isDeepStrictEqual } from "node:util"
import type { Json, JsonObject } from "../../../src/core/values/json.ts"
import type { Assignment } from "../../../src/executors/executor.ts"
import type { RunRecord, TaskRecord } from "../database/table-reader.ts"
import { readUpstreamFile } from "../engine/process-folders.ts"
import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"
import { describeTask, isSuspended, type LaunchedAttempt } from "./attempt-log.ts"
import {
  evaluateRule,
  hasFinished,
  hookEvents,
  isLive,
  lastIndex,
  minRetryDelay,
  outcomeOf,
  ownName,
  scopeOf,
} from "./model.ts"

/** An engine whose holder was given up may still launch what it claimed before, until it notices that. */
export const checkLaunch = (simulation: Simulation, attempt: LaunchedAttempt, assignment: Assignment): void => {
  const run = simulation.tables.run(attempt.runId)
  if (run === undefined && simulation.isAbandoned(attempt)) return
  if (run === undefined) throw new Violation("a launch is recorded first", `the run of ${describeTask(attempt)} is not stored`)
  const row = simulation.tables.task(run.seq, attempt.simNode.index, attempt.path)
  const isAbandoned = simulation.isAbandoned(attempt)
  if (!isAbandoned) checkRecorded(attempt, row)
  checkAlone(simulation, attempt)
  if (isAbandoned) return
  checkNumber(simulation, attempt)
  checkHistory(simulation, attempt)
  checkLimits(simulation, attempt)
  if (attempt.simNode.node.hook === null) {
    checkRule(simulation, run, attempt)
    checkInput(simulation, run, attempt, assignment)
  } else if (!hookEvents(run.status).includes(attempt.simNode.node.hook)) {
    throw new Violation("hooks match the status of their run", `${describeTask(attempt)} was launched for a ${run.status} run`)
  }
}

/** Returns whether the task has this attempt. A retry replaces the attempts that an abandoned holder claimed before it. */
export const isStored = (simulation: Simulation, { runId, simNode, path, id }: LaunchedAttempt): boolean => {
  const run = simulation.tables.run(runId)
  return run !== undefined && simulation.tables.task(run.seq, simNode.index, path)?.attempt_id === id
}

const checkRecorded = (attempt: LaunchedAttempt, row: TaskRecord | undefined): void => {
  if (row !== undefined && row.attempt_id === attempt.id && isLive(row)) return
  const found = row === undefined ? "no row" : `${row.status}, attempt ${row.attempt_id}`
  const launched = `${describeTask(attempt)} #${attempt.number} ${attempt.id}`
  throw new Violation("a launch is recorded first", `${launched}: the database has ${found}`)
}

const checkAlone = (simulation: Simulation, attempt: LaunchedAttempt): void => {
  for (const other of simulation.attemptLog.live) {
    if (other.runId !== attempt.runId || other.simNode !== attempt.simNode || other.path !== attempt.path) continue
    if (simulation.isAbandoned(other) || simulation.isAbandoned(attempt)) continue
    throw new Violation("a task has one live attempt", `${describeTask(attempt)} #${attempt.number} beside #${other.number}`)
  }
}

const checkNumber = (simulation: Simulation, attempt: LaunchedAttempt): void => {
  const { launches } = simulation.attemptLog.history(attempt.runId, attempt.simNode.index, attempt.path)
  const last = launches.at(-1)
  if (last === undefined || attempt.number > last.number) return
  // A function goes on under its attempt number.
  if (attempt.number === last.number && isSuspended(last.result)) return
  throw new Violation("attempt numbers count up", `${describeTask(attempt)} #${attempt.number} after #${last.number}`)
}

const checkHistory = (simulation: Simulation, attempt: LaunchedAttempt): void => {
  const { applied, succeeded } = simulation.attemptLog.history(attempt.runId, attempt.simNode.index, attempt.path)
  const task = `${describeTask(attempt)} #${attempt.number}`
  if (succeeded) throw new Violation("a success is not run again", task)
  const { retry, lostRetries } = attempt.simNode.node
  const failed = applied.filter(({ state }) => state === "failed" || state === "timeout").length
  const lost = applied.filter(({ state }) => state === "lost").length
  if (failed >= retry.maxAttempts || lost > lostRetries) {
    const budget = `${failed} of ${retry.maxAttempts} failed, ${lost} lost with ${lostRetries} allowed`
    throw new Violation("retries stay within their budget", `${task}: ${budget}`)
  }
  const last = applied.at(-1)
  if (last === undefined || last.state === "lost") return
  const dueAt = last.at + (last.retryAfterMs ?? minRetryDelay(retry, failed))
  if (simulation.clock.latest >= dueAt) return
  throw new Violation("retries wait for their delay", `${task} is ${dueAt - simulation.clock.latest} ms too early`)
}

/** Counts live attempts, this one included, without those of dead holders. */
const checkLimits = (simulation: Simulation, attempt: LaunchedAttempt): void => {
  const { simNode, workflow, process, runId, key } = attempt
  const live = [...simulation.attemptLog.live].filter((other) => !simulation.isAbandoned(other))
  const check = (what: string, cap: number | undefined, counts: (other: LaunchedAttempt) => boolean): void => {
    const used = live.filter(counts).length + 1
    if (cap === undefined || used <= cap) return
    throw new Violation("limits hold", `${describeTask(attempt)} is number ${used} of the ${cap} allowed ${what}`)
  }
  const { concurrency } = simulation.scenario.engines[process.engineIndex]!
  // A function whose suspension was rejected learns of its cancel at once, without a free slot.
  const isRelaunched = workflow.program !== undefined && simulation.commitLog.cancelled.has(runId)
  if (!isRelaunched) check("in the engine", concurrency, (other) => other.process === process)
  const isSameTask = (other: LaunchedAttempt): boolean => other.workflow === workflow && other.simNode === simNode
  if (key === null) {
    check("of the task", simNode.node.concurrency, (other) => isSameTask(other) && other.runId === runId)
  } else {
    check("of the key", simNode.node.concurrency, (other) => isSameTask(other) && other.key === key)
  }
  if (simNode.node.hook !== null) return
  const isInSameRun = (other: LaunchedAttempt): boolean => other.runId === runId && other.simNode.node.hook === null
  check("of the run", workflow.compiled.concurrency, isInSameRun)
}

const checkRule = (simulation: Simulation, run: RunRecord, attempt: LaunchedAttempt): void => {
  const { simNode, workflow } = attempt
  const upstream = simulation.model.upstream(workflow, run, simNode, attempt.path)
  const fail = (why: string): never => {
    throw new Violation("no task starts before its rule holds", `${describeTask(attempt)}: ${why}`)
  }
  const unfinished = upstream.find((row) => !hasFinished(row))
  if (unfinished !== undefined) fail(`upstream ${workflow.nodes[unfinished.node]!.node.name} is ${unfinished.status}`)
  const outcomes = upstream.map((row) => outcomeOf(row, workflow.nodes[row.node]!))
  const decision = evaluateRule(simNode.node.rule, outcomes)
  if (decision !== "run") fail(`${simNode.node.rule} over ${outcomes.join(", ")} gives ${decision}`)
  if (simNode.condition === null) return
  const condition = simNode.condition.evaluate(simulation.model.expressionScope(workflow, run, simNode, attempt.path))
  if (condition !== true) fail(`its if is ${condition}`)
}

/** The instances of a fan-out read larger outputs from files. */
const MAX_MERGED_BYTES = 64 * 1024

const checkInput = (simulation: Simulation, run: RunRecord, attempt: LaunchedAttempt, assignment: Assignment): void => {
  const { simNode, workflow, path } = attempt
  const input = assignment.input as JsonObject
  const check = (what: string, found: Json | undefined, expected: Json | undefined): void => {
    if (isDeepStrictEqual(found, expected)) return
    const values = `${JSON.stringify(found)?.slice(0, 200)} and not ${JSON.stringify(expected)?.slice(0, 200)}`
    throw new Violation("inputs hold the upstream outputs", `${describeTask(attempt)}: ${what} is ${values}`)
  }
  for (const row of simulation.model.upstream(workflow, run, simNode, path)) {
    const name = ownName(workflow.nodes[row.node]!)
    const value = simulation.model.downstreamValue(row)
    const isFile = simNode.items !== null && Buffer.byteLength(JSON.stringify(value)) > MAX_MERGED_BYTES
    check(name, input[name], isFile ? undefined : value)
    if (isFile) check(`the file of ${name}`, readUpstreamFile(assignment.upstreamDir, name), value)
  }
  const scope = scopeOf(workflow, simNode, path)
  if (simNode.node.parent !== undefined) check("at", input["at"], lastIndex(scope))
  else if (simNode.node.input !== undefined) check("x", input["x"], (JSON.parse(run.params) as JsonObject)["x"])
  if (simNode.items === null) return
  const items = simNode.items(simulation.model.expressionScope(workflow, run, simNode, scope))
  if (items === "error") return check("the list of its instances", "a list", "an error")
  const index = lastIndex(path)
  if (simNode.node.fan!.foreach !== undefined) check("item", input["item"], items[index])
  check("parallelIndex", assignment.parallelIndex, index)
  check("parallelCount", assignment.parallelCount, items.length)
}
