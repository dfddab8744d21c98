// Checks the runs that start after successes of other workflows, against the successes that were committed.

import type { AfterTrigger } from "../../../src/core/model/workflow.ts"
import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"

interface Follower {
  name: string
  trigger: AfterTrigger
}

/** A world has at most one workflow with a trigger. */
const followerOf = ({ scenario }: Simulation): Follower | null => {
  const compiled = scenario.workflows.map((workflow) => workflow.compiled).find(({ triggers }) => triggers !== undefined)
  return compiled === undefined ? null : { name: compiled.name, trigger: compiled.triggers![0] as AfterTrigger }
}

/** Returns whether there are successes for which a run has to start. */
export const isFollowerDue = (simulation: Simulation): boolean => {
  const follower = followerOf(simulation)
  if (follower === null) return false
  const { after, when } = follower.trigger
  const workflows = new Set(simulation.tables.unusedSuccesses())
  return workflows.size >= (when === "any" ? 1 : after.length)
}

export const checkFollowers = (simulation: Simulation): void => {
  const follower = followerOf(simulation)
  if (follower === null) return
  const { name, trigger } = follower
  const runs = simulation.tables.runs().filter((run) => run.workflow === name)
  const found = runs.map(({ cause }) => describe((JSON.parse(cause!) as { runs: { id: string }[] }).runs.map(({ id }) => id)))
  const expected = expectedCauses(simulation, trigger).map(describe)
  if (found.toSorted().join(", ") === expected.toSorted().join(", ")) return
  const text = `${name} (${trigger.when}) has runs for ${found.join(", ")}, not for ${expected.join(", ")}`
  throw new Violation("each success of a workflow starts what follows it once", text)
}

const describe = (runIds: readonly string[]): string => runIds.toSorted().join(" and ")

/** Returns the runs that cause a run together. */
const expectedCauses = ({ commitLog, tables }: Simulation, { after, when }: AfterTrigger): string[][] => {
  const causes: string[][] = []
  let newest = new Map<string, string>()
  for (const id of commitLog.successes) {
    const run = tables.run(id)!
    if (run.private === 1 || !after.includes(run.workflow) || tables.parentRun(id) !== null) continue
    newest.set(run.workflow, id)
    if (when === "all" && newest.size < after.length) continue
    causes.push([...newest.values()])
    newest = new Map()
  }
  return causes
}
