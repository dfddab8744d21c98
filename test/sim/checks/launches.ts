// What must be true at the instant that a task is launched, judged from the database as committed and from the witness.

import { isDeepStrictEqual } from "node:util"
import type { Json, JsonObject } from "../../../src/core/model/json.ts"
import type { Assignment } from "../../../src/executors/executor.ts"
import type { RunRecord, TaskRecord } from "../database/table-reader.ts"
import { endOf, hasEnded, hookEvents, isLive, lastIndex, leastDelay, ownName, ruleVerdict, scopeOf } from "./model.ts"
import { Violation } from "../trace.ts"
import { placeText, type Witnessed } from "./attempt-log.ts"
import type { World } from "../simulation.ts"

export const checkLaunch = (world: World, attempt: Witnessed, assignment: Assignment): void => {
  const run = world.tables.run(attempt.runId)
  if (run === undefined) throw new Violation("recorded before launched", `${placeText(attempt)} is of a run that is not stored`)
  const row = world.tables.task(run.seq, attempt.sim.index, attempt.path)
  const excused = world.givenUp(attempt)
  if (!excused) checkRecorded(attempt, row)
  checkAlone(world, attempt)
  checkNumber(world, attempt)
  checkHistory(world, attempt, excused)
  if (excused) return
  checkLimits(world, attempt)
  if (attempt.sim.node.hook === null) {
    checkRule(world, run, attempt)
    checkInput(world, run, attempt, assignment)
  } else if (!hookEvents(run.status).includes(attempt.sim.node.hook)) {
    throw new Violation("hooks fit the end of their run", `${placeText(attempt)} was launched while the run is ${run.status}`)
  }
}

const checkRecorded = (attempt: Witnessed, row: TaskRecord | undefined): void => {
  if (row !== undefined && row.attempt_id === attempt.id && isLive(row)) return
  const found = row === undefined ? "no row" : `${row.status}, attempt ${row.attempt_id}`
  throw new Violation(
    "recorded before launched",
    `${placeText(attempt)} #${attempt.number} ${attempt.id}: the database has ${found}`,
  )
}

const checkAlone = (world: World, attempt: Witnessed): void => {
  for (const other of world.witness.live) {
    if (other.runId !== attempt.runId || other.sim !== attempt.sim || other.path !== attempt.path) continue
    if (world.givenUp(other) || world.givenUp(attempt)) continue
    throw new Violation("one live attempt", `${placeText(attempt)} #${attempt.number} while #${other.number} is live`)
  }
}

const checkNumber = (world: World, attempt: Witnessed): void => {
  const { launches } = world.witness.history(attempt.runId, attempt.sim.index, attempt.path)
  const last = launches.at(-1)
  if (last === undefined || attempt.number > last.number || world.givenUp(attempt)) return
  throw new Violation("attempt numbers count up", `${placeText(attempt)} #${attempt.number} after #${last.number}`)
}

const checkHistory = (world: World, attempt: Witnessed, excused: boolean): void => {
  const { applied, succeeded } = world.witness.history(attempt.runId, attempt.sim.index, attempt.path)
  if (excused) return
  if (succeeded) throw new Violation("a success is not run again", `${placeText(attempt)} #${attempt.number}`)
  const { retry, lostRetries } = attempt.sim.node
  const failed = applied.filter((end) => end.state === "failed" || end.state === "timeout")
  const lost = applied.filter((end) => end.state === "lost")
  if (failed.length >= retry.maxAttempts || lost.length > lostRetries) {
    const budget = `${failed.length} of ${retry.maxAttempts} failed, ${lost.length} lost with ${lostRetries} allowed`
    throw new Violation("retries stay within their budget", `${placeText(attempt)} #${attempt.number}: ${budget}`)
  }
  const last = applied.at(-1)
  if (last === undefined || last.state === "lost") return
  const due = last.at + (last.retryAfterMs ?? leastDelay(retry, failed.length))
  if (world.clock.now() >= due) return
  throw new Violation("retries wait", `${placeText(attempt)} #${attempt.number} comes ${due - world.clock.now()} ms too early`)
}

/** Counts what is live in the world, this one included, and was not given up as lost. */
const checkLimits = (world: World, attempt: Witnessed): void => {
  const { sim, workflow } = attempt
  const live = [...world.witness.live].filter((other) => !world.givenUp(other))
  const demand = (what: string, cap: number | undefined, counts: (other: Witnessed) => boolean): void => {
    const used = live.filter(counts).length + 1
    if (cap !== undefined && used > cap) {
      throw new Violation("limits are kept", `${placeText(attempt)} is number ${used} of the ${cap} allowed ${what}`)
    }
  }
  const engine = world.scenario.engines[attempt.incarnation.engine]!
  demand("in the engine", engine.concurrency, (other) => other.incarnation === attempt.incarnation)
  const sameTask = (other: Witnessed): boolean => other.workflow === workflow && other.sim === sim
  if (attempt.key === null) {
    demand("of the task", sim.node.concurrency, (other) => sameTask(other) && other.runId === attempt.runId)
  } else {
    demand("of the key", sim.node.concurrency, (other) => sameTask(other) && other.key === attempt.key)
  }
  if (sim.node.hook !== null) return
  const sameRun = (other: Witnessed): boolean => other.runId === attempt.runId && other.sim.node.hook === null
  demand("of the run", workflow.compiled.concurrency, sameRun)
}

const checkRule = (world: World, run: RunRecord, attempt: Witnessed): void => {
  const { sim, workflow } = attempt
  const upstream = world.model.upstream(workflow, run, sim, attempt.path)
  const early = upstream.find((row) => !hasEnded(row))
  const fail = (why: string): never => {
    throw new Violation("no task starts before its rule holds", `${placeText(attempt)}: ${why}`)
  }
  if (early !== undefined) fail(`upstream ${workflow.nodes[early.node]!.node.name} is ${early.status}`)
  const verdict = ruleVerdict(sim.node.rule, upstream.map(endOf))
  if (verdict !== "run") fail(`${sim.node.rule} over ${upstream.map(endOf).join(", ")} says ${verdict}`)
  if (sim.condition === null) return
  const truth = sim.condition.judge(world.model.view(workflow, run, sim, attempt.path))
  if (truth !== true) fail(`its if is ${truth}`)
}

const checkInput = (world: World, run: RunRecord, attempt: Witnessed, assignment: Assignment): void => {
  const { sim, workflow } = attempt
  const input = assignment.input as JsonObject
  const demand = (what: string, found: Json | undefined, wanted: Json | undefined): void => {
    if (isDeepStrictEqual(found, wanted)) return
    const told = `${JSON.stringify(found)?.slice(0, 200)} and not ${JSON.stringify(wanted)?.slice(0, 200)}`
    throw new Violation("inputs hold the upstream outputs", `${placeText(attempt)}: ${what} is ${told}`)
  }
  for (const row of world.model.upstream(workflow, run, sim, attempt.path)) {
    const name = ownName(workflow.nodes[row.node]!)
    demand(name, input[name], world.model.handedDown(row))
  }
  const scope = scopeOf(workflow, sim, attempt.path)
  if (sim.node.parent !== undefined) demand("at", input["at"], lastIndex(scope))
  else if (sim.node.input !== undefined) demand("x", input["x"], (JSON.parse(run.params) as JsonObject)["x"])
  if (sim.items === null) return
  const items = sim.items(world.model.view(workflow, run, sim, scope))
  if (items === "error") return demand("the list of its instances", "some", "none")
  const index = lastIndex(attempt.path)
  if (sim.node.fan!.foreach !== undefined) demand("item", input["item"], items[index])
  demand("parallelIndex", assignment.parallelIndex, index)
  demand("parallelCount", assignment.parallelCount, items.length)
}
