// An ended run against the model: every status follows from the rules, the witness and what users asked for.

import { isDeepStrictEqual } from "node:util"
import type { Json } from "../../../src/core/model/json.ts"
import type { RunRecord, TaskRecord } from "../database/table-reader.ts"
import { endOf, hasEnded, hookEvents, lastIndex, ruleVerdict } from "./model.ts"
import { isOver } from "./group-timeouts.ts"
import { Violation } from "../trace.ts"
import { waitedWrongly } from "../scenario/waiting-tasks.ts"
import type { SimNode, SimWorkflow } from "../scenario/workflows.ts"
import type { World } from "../simulation.ts"

interface Ended {
  world: World
  run: RunRecord
  workflow: SimWorkflow
  rows: TaskRecord[]
  /** A user or the run's own time limit stopped it: tasks may be cancelled instead of what they would have been. */
  stopped: boolean
}

const fail = ({ world, run }: Ended, row: TaskRecord, why: string): never => {
  const { name } = world.simOf(run.workflow, row.node).node
  throw new Violation("tasks end as the rules say", `${world.labelOf(run.id)}/${name}[${row.path}] is ${row.status}: ${why}`)
}

export const checkRun = (world: World, run: RunRecord): void => {
  const rows = world.tables.tasksOf(run.seq)
  const stopped = world.mayStop(run)
  const ended: Ended = { world, run, workflow: world.workflowOf(run.workflow), rows, stopped }
  for (const row of rows) if (!hasEnded(row)) fail(ended, row, "its run has ended")
  checkStatus(ended)
  checkCancelled(ended)
  checkHooks(ended)
  checkCounts(world, run, rows)
  for (const row of rows) checkAttempts(ended, row)
  for (const row of rows) if (row.parent_id === null && row.hook === 0) checkNode(ended, row)
}

const checkStatus = ({ world, run, rows, workflow }: Ended): void => {
  const failed = rows.some((row) => row.parent_id === null && row.hook === 0 && row.status === "failed")
  const plain = failed ? "failed" : "success"
  const cancelled = world.commits.cancelled.has(run.id)
  const timedOut = run.error?.startsWith("timed out") ?? false
  const allowed = timedOut ? (cancelled ? ["failed", "cancelled"] : ["failed"]) : cancelled ? ["cancelled"] : [plain]
  if (!allowed.includes(run.status)) {
    const why = `${cancelled ? "cancelled by a user" : "not cancelled"}, a task failed: ${failed}, ${run.error ?? "no error"}`
    throw new Violation("runs end as the rules say", `${world.labelOf(run.id)} is ${run.status}: ${why}`)
  }
  if (rows.length === 0 && run.status !== "cancelled" && workflow.nodes.length > 0) {
    throw new Violation("runs end as the rules say", `${world.labelOf(run.id)} is ${run.status} without having begun`)
  }
}

/** Engines that are down, calls that are slow and processes that do not want to die take less than this. */
const CANCEL_MS = 5 * 60_000

/** However long its tasks would have waited. */
const checkCancelled = ({ world, run }: Ended): void => {
  const since = world.commits.cancelled.get(run.id)
  const took = since === undefined ? 0 : Date.parse(run.finished_at!) - since
  if (took <= CANCEL_MS) return
  throw new Violation("a cancelled run ends soon", `${world.labelOf(run.id)} took ${took / 1000} s`)
}

const checkHooks = (ended: Ended): void => {
  const { world, run, rows, workflow } = ended
  const events = hookEvents(run.status)
  const wanted = workflow.nodes.filter(({ node }) => node.hook !== null && events.includes(node.hook)).map(({ index }) => index)
  const found = rows.filter((row) => row.hook === 1)
  const nodes = found.map((row) => row.node).toSorted((a, b) => a - b)
  if (!isDeepStrictEqual(nodes, wanted)) {
    throw new Violation(
      "hooks fit the end of their run",
      `${world.labelOf(run.id)} is ${run.status} with hooks ${nodes.join(" ")}`,
    )
  }
  for (const row of found) {
    if (row.status === "success" || row.status === "failed") checkWork(ended, row)
    else fail(ended, row, "a hook is run whatever happens")
  }
}

export const checkCounts = (
  world: World,
  run: RunRecord,
  rows: Pick<TaskRecord, "kind" | "hook" | "status" | "parent_id">[],
): void => {
  const tasks = rows.filter((row) => row.kind === "task" && row.hook === 0)
  const count = (status: string): number => tasks.filter((row) => row.status === status).length
  const open = rows.filter((row) => row.parent_id === null && row.hook === 0)
  const wanted = {
    tasks_total: tasks.length,
    tasks_success: count("success"),
    tasks_failed: count("failed"),
    tasks_skipped: count("skipped"),
    tasks_cancelled: count("cancelled"),
    open_tasks: open.filter((row) => !hasEnded(row)).length,
    failed: open.filter((row) => row.status === "failed").length,
    hooks_pending: rows.filter((row) => row.hook === 1 && !hasEnded(row)).length,
  }
  for (const [name, value] of Object.entries(wanted)) {
    const found = run[name as keyof RunRecord]
    if (found !== value)
      throw new Violation("counts are right", `${name} of ${world.labelOf(run.id)} is ${found}, not ${value}`)
  }
}

const checkAttempts = (ended: Ended, row: TaskRecord): void => {
  const numbers = ended.world.tables.attempts(row.id).map(({ attempt }) => attempt)
  const past = row.attempt_id === null ? row.attempt : row.attempt - 1
  const wanted = Array.from({ length: past }, (_, i) => i + 1)
  if (isDeepStrictEqual(numbers, wanted)) return
  const { name } = ended.world.simOf(ended.run.workflow, row.node).node
  const told = `${ended.world.labelOf(ended.run.id)}/${name}[${row.path}] at ${row.attempt} has kept ${numbers.join(" ")}`
  throw new Violation("every attempt is kept", told)
}

const checkNode = (ended: Ended, row: TaskRecord): void => {
  const { world, run, workflow, stopped } = ended
  const sim = workflow.nodes[row.node]!
  if (world.isKept(run.id, row.id)) return
  if (row.status === "cancelled") return stopped ? undefined : fail(ended, row, "nobody stopped the run")
  const verdict = ruleVerdict(sim.node.rule, world.model.upstream(workflow, run, sim, row.path).map(endOf))
  const demand = (status: string, skip: string | null, why: string): void => {
    if (row.status !== status || row.skip_reason !== skip) fail(ended, row, why)
    if (row.status === "skipped" && world.witness.history(run.id, row.node, row.path).launches.length > 0) {
      fail(ended, row, "it was launched")
    }
  }
  if (verdict !== "run") return demand("skipped", verdict, `${sim.node.rule} says ${verdict}`)
  if (sim.condition !== null && !sim.condition.perInstance) {
    const truth = sim.condition.judge(world.model.view(workflow, run, sim, row.path))
    if (truth === false) return demand("skipped", "waived", "its if is false")
    if (truth === "error") return demand("failed", null, "its if cannot be judged")
  }
  if (row.status === "skipped") fail(ended, row, "nothing says so")
  if (sim.items === null) checkOne(ended, row)
  else checkFan(ended, row, sim)
}

const checkOne = (ended: Ended, row: TaskRecord): void =>
  row.kind === "group" ? checkGroup(ended, row) : checkWork(ended, row)

/** A run in small: it has all of its tasks, each ended by the rules, and fails when one of them did. */
const checkGroup = (ended: Ended, row: TaskRecord): void => {
  const { world, workflow, stopped } = ended
  const inside = world.tables.instances(row.id)
  const over = isOver(world, row)
  if (!over && row.error?.startsWith("timed out") === true) fail(ended, row, "its time was not over")
  const wanted = workflow.nodes.filter(({ node }) => node.group === row.node).map(({ index }) => index)
  const found = inside.map(({ node }) => node).toSorted((a, b) => a - b)
  if (!stopped && !isDeepStrictEqual(found, wanted)) fail(ended, row, `it has the tasks ${found.join(" ")}`)
  for (const child of inside) {
    if (child.path !== row.path) fail(ended, child, `its group is at [${row.path}]`)
    checkNode({ ...ended, stopped: stopped || over }, child)
  }
  const bad = inside.some(({ status }) => status === "failed" || status === "cancelled")
  if (row.status !== (bad ? "failed" : "success")) fail(ended, row, `a task in it failed: ${bad}`)
}

const checkFan = (ended: Ended, row: TaskRecord, sim: SimNode): void => {
  const { world, run, workflow, stopped } = ended
  const instances = world.tables.instances(row.id)
  const items = sim.items!(world.model.view(workflow, run, sim, row.path))
  if (items === "error") {
    if (row.status !== "failed" || instances.length > 0) fail(ended, row, "it has no list to work on")
    return
  }
  const short = stopped && instances.length < items.length
  const paths = new Set(instances.map((instance) => instance.path))
  if (!short && (instances.length !== items.length || paths.size !== items.length)) {
    fail(ended, row, `it has ${instances.length} instances, not ${items.length}`)
  }
  for (const instance of instances) {
    const item = items[lastIndex(instance.path)]
    if (!isDeepStrictEqual(parse(instance.item), item)) fail(ended, instance, `its item is ${instance.item}`)
    if (world.isKept(run.id, instance.id)) continue
    if (instance.status === "cancelled") {
      if (!stopped) fail(ended, instance, "nobody stopped the run")
      continue
    }
    const truth = sim.condition?.perInstance ? sim.condition.judge(world.model.view(workflow, run, sim, instance.path)) : true
    if ((instance.status === "skipped") !== (truth === false)) fail(ended, instance, `its if is ${truth}`)
    if (truth === true) checkOne(ended, instance)
  }
  const bad = instances.some(({ status }) => status === "failed" || status === "cancelled")
  if (row.status !== (bad ? "failed" : "success")) fail(ended, row, `an instance failed: ${bad}`)
}

const parse = (text: string | null): Json => (text === null ? null : (JSON.parse(text) as Json))

/** A row that should have been worked on: its end is what the last attempt said. */
const checkWork = (ended: Ended, row: TaskRecord): void => {
  const { world, run, workflow } = ended
  const sim = workflow.nodes[row.node]!
  const history = world.witness.history(run.id, row.node, row.path)
  const last = history.applied.at(-1)
  if (row.status === "success" && row.attempt_id === null) {
    if (sim.node.cache === undefined) fail(ended, row, "nobody ran it")
    if (!world.cachedOutputs(workflow, sim).has(row.output ?? row.output_key ?? "null"))
      fail(ended, row, "its cached output is of nobody")
    return
  }
  if (last === undefined || last.kind !== "finish" || last.id !== row.attempt_id) fail(ended, row, "no attempt ended so")
  if (sim.waits !== null) {
    const wrong = waitedWrongly(world, sim, row, last!.state)
    if (wrong !== null) fail(ended, row, wrong)
    return
  }
  if (last!.state === "success" && !isDeepStrictEqual(world.model.output(row), world.said(last!.id))) {
    fail(ended, row, "its output is not what the task said")
  }
  if ((last!.state === "success") !== (row.status === "success")) fail(ended, row, `its last attempt was ${last!.state}`)
}
