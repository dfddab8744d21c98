// Random small graphs under random changes, including duplicate and stale ones. After every step the counters must equal a
// recount of the rows, the used slots of limits must equal the rows in flight under them, and in the end every run has finished.

import fc from "fast-check"
import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import { instanceLane, evaluateRule } from "../../../core/rules/changes/gate.ts"
import type { HolderId, RunId } from "../../../core/model/ids.ts"
import { isInstance } from "../../../core/model/task-path.ts"
import { type RowState, planRetry, type RetryRequest } from "../../../core/rules/runs/retry-plan.ts"
import { innerRows, limitsOf } from "../../../core/rules/runs/new-rows.ts"
import { isRunClosed, isTaskFinished } from "../../../core/model/status.ts"
import { type NodeInput, workflow } from "../../../core/testing.ts"
import { type CompiledWorkflow, RUN_WHEN } from "../../../core/model/workflow.ts"
import type { TaskClaim, RunRow, TaskRow } from "../../contract/store.ts"
import { fence, type Open, setup, WORK, type World } from "../world.ts"

const fan = { foreach: { lit: [] }, reference: "items" }

interface Plan {
  seed: number
  tasks: { after: number[]; fan: number | null; rule: number; concurrency: number | null }[]
  concurrency: number | null
  maxActiveRuns: number | null
  steps: number[]
}

const planArbitrary: fc.Arbitrary<Plan> = fc.record({
  seed: fc.nat(),
  tasks: fc.array(
    fc.record({
      after: fc.array(fc.nat({ max: 5 }), { maxLength: 3 }),
      fan: fc.option(fc.nat({ max: 4 }), { freq: 3 }),
      rule: fc.nat({ max: RUN_WHEN.length - 1 }),
      concurrency: fc.option(fc.integer({ min: 1, max: 2 }), { freq: 3 }),
    }),
    { minLength: 1, maxLength: 6 },
  ),
  concurrency: fc.option(fc.integer({ min: 1, max: 3 })),
  maxActiveRuns: fc.option(fc.integer({ min: 1, max: 2 })),
  steps: fc.array(fc.nat({ max: 11 }), { minLength: 5, maxLength: 40 }),
})

const flowOf = (plan: Plan): CompiledWorkflow => {
  const tasks = plan.tasks.map((task, i): [string, NodeInput] => {
    const after = [...new Set(task.after.filter((up) => up < i))].map((up) => `t${up}`)
    const input: NodeInput = { after, rule: RUN_WHEN[task.rule]! }
    if (task.fan !== null) input.fan = fan
    if (task.concurrency !== null) input.concurrency = task.concurrency
    return [`t${i}`, input]
  })
  const rest: Partial<CompiledWorkflow> = {}
  if (plan.concurrency !== null) rest.concurrency = plan.concurrency
  if (plan.maxActiveRuns !== null) rest.maxActiveRuns = plan.maxActiveRuns
  return workflow(Object.fromEntries([...tasks, ["on_exit.0", {}]]), rest)
}

/** A random engine: applies some of its claims' changes, some of them twice and some too late. */
export class Chaos {
  readonly world: World
  readonly flow: CompiledWorkflow
  /** Returns the number of instances that a fan-out creates. */
  readonly totalOf: (node: number) => number
  readonly runs: RunId[] = []
  readonly cancelled = new Set<RunId>()
  held: { claim: TaskClaim; gate: boolean; holder: HolderId }[] = []
  past: Change[] = []
  others: HolderId[] = []

  constructor(world: World, flow: CompiledWorkflow, totalOf: (node: number) => number) {
    this.world = world
    this.flow = flow
    this.totalOf = totalOf
  }

  chance(below: number): number {
    return Math.floor(this.world.random.next() * below)
  }

  pick<T>(list: readonly T[]): T | undefined {
    return list[this.chance(list.length)]
  }

  async step(kind: number): Promise<void> {
    const { store } = this.world
    const run = this.pick(this.runs)
    switch (kind) {
      case 0:
        this.runs.push((await this.world.start(this.flow)).id)
        return
      case 1:
        if (run !== undefined) await store.setPaused(run, this.chance(2) === 0)
        return
      case 2:
        if (run === undefined || this.chance(3) > 0) return
        await store.requestCancel(run, "cancel")
        this.cancelled.add(run)
        return
      case 3:
        this.world.clock.pass(this.chance(3000))
        return
      case 4:
        if (run !== undefined) await this.retryRun(run)
        return
      case 5:
        await this.lose()
        return
      default:
        await this.turn(this.changes(), this.chance(4), this.chance(4))
    }
  }

  async turn(
    changes: Change[],
    claim: number,
    gate: number,
    holder = this.pick([this.world.holder, ...this.others])!,
  ): Promise<boolean> {
    const { claims, gateClaims: gates, more } = await this.world.turn({ holder, changes, claim, gate })
    this.held.push(
      ...claims.map((c) => ({ claim: c, gate: false, holder })),
      ...gates.map((c) => ({ claim: c, gate: true, holder })),
    )
    this.past.push(...changes)
    return more || claims.length + gates.length > 0
  }

  /** Applies changes to some of the claims in flight, and occasionally repeats an old one. */
  changes(all = false): Change[] {
    const taken = this.held.filter(() => all || this.chance(2) === 0)
    this.held = this.held.filter((held) => !taken.includes(held))
    const changes = taken.flatMap(({ claim, gate }) => (gate ? this.evaluate(claim) : this.end(claim, all)))
    const old = all ? undefined : this.pick(this.past)
    if (old !== undefined) changes.splice(this.chance(changes.length + 1), 0, old)
    if (changes.length > 0 && !all && this.chance(3) === 0) changes.push(changes[0]!)
    return changes
  }

  end(claim: TaskClaim, surely: boolean): Change[] {
    const started: Change = { ...fence(claim), kind: "started", at: this.world.clock.now() }
    switch (this.chance(surely ? 3 : 7)) {
      case 0:
        return [this.world.ended(claim, "failed")]
      case 1:
      case 2:
        return [this.world.ended(claim, "success", claim.row)]
      case 3:
        return [this.world.again(claim, this.chance(2) * 500)]
      case 4:
        return [{ ...fence(claim), kind: "release" }]
      case 5:
        return [started, this.world.ended(claim)]
      default:
        this.held.push({ claim, gate: false, holder: this.world.holder })
        return [started]
    }
  }

  evaluate(claim: TaskClaim): Change[] {
    const node = this.flow.nodes[claim.node]!
    const total = this.totalOf(claim.node)
    const gather = claim.kind !== "task" && claim.childrenCreated > 0 && claim.childrenPending === 0
    if (gather || (claim.kind === "fan" && claim.childrenCreated === 0 && claim.run.cancelling !== null && total === 0)) {
      const status = claim.run.cancelling !== null ? "cancelled" : claim.childrenFailed > 0 ? "failed" : "success"
      return [{ ...fence(claim), kind: "gather", status, output: { inline: [] } }]
    }
    const item = isInstance(node, claim.kind)
    const skipReason = item ? null : evaluateRule(node.rule, { total: node.upstream.length, ...claim.upstream })
    if (skipReason !== null && claim.childrenCreated === 0)
      return [{ ...fence(claim), kind: "skip", skipReason, reason: node.rule }]
    const limits = limitsOf(this.flow, claim.node, claim.runId)
    if (claim.kind === "task") return [{ ...fence(claim), kind: "enqueue", lane: WORK, limits }]
    if (claim.kind === "group") return this.open(claim, limits)
    if (total === 0) return [{ ...fence(claim), kind: "gather", status: "success", output: { inline: [] } }]
    return this.expand(claim, total, limits)
  }

  /** Creates one instance per chunk; sometimes stops halfway, as if the process had died. */
  expand(claim: TaskClaim, total: number, limits: { key: string; cap: number }[]): Change[] {
    const upTo = this.chance(4) === 0 ? claim.childrenCreated + this.chance(total - claim.childrenCreated) : total
    const lane = instanceLane({ id: claim.runId, private: false }, this.flow.nodes[claim.node]!)
    const chunks: Change[] = []
    for (let offset = claim.childrenCreated; offset < upTo; offset++)
      chunks.push({ ...fence(claim), kind: "expand", total, offset, items: [offset], lane, priority: 5, limits })
    return upTo === total ? chunks : [...chunks, { ...fence(claim), kind: "release" }]
  }

  /** Creates two tasks per chunk, and occasionally only the first chunk. */
  open(claim: TaskClaim, limits: { key: string; cap: number }[]): Change[] {
    const chunks = innerRows(this.flow, claim.node, { id: claim.runId, private: false, priority: 5 }, 2)
    const total = chunks.reduce((sum, rows) => sum + rows.length, 0)
    if (claim.childrenCreated === total)
      return [{ ...fence(claim), kind: "open_group", total, offset: total, rows: [], limits }]
    const changes: Change[] = []
    let offset = 0
    for (const rows of chunks) {
      if (offset >= claim.childrenCreated) changes.push({ ...fence(claim), kind: "open_group", total, offset, rows, limits })
      offset += rows.length
    }
    return changes.length > 1 && this.chance(4) === 0 ? [changes[0]!, { ...fence(claim), kind: "release" }] : changes
  }

  async retryRun(id: RunId): Promise<void> {
    const run = await this.world.run(id)
    const nodes = await statesOf(this.world, id)
    const plan = planRetry(this.flow, run, nodes, this.retryRequest(nodes))
    if ("reset" in plan && isRunClosed(run.status)) await this.world.store.retryRun(id, plan.reset)
  }

  retryRequest(states: readonly RowState[]): RetryRequest {
    const some = this.pick(states)
    if (some === undefined || this.chance(2) === 0) return {}
    const task = this.flow.nodes[some.node]!.name
    return some.path !== "" && this.chance(2) === 0 ? { instance: { task, path: some.path } } : { from: task }
  }

  /** Adds a holder and kills another one that has claims. */
  async lose(): Promise<void> {
    const dead = this.others.shift()
    this.others.push(await this.world.join("other"))
    if (dead === undefined) return
    await this.world.die(dead)
    for (const other of this.others) await this.world.store.renewLease(other, 10_000)
    const left = await this.world.store.reapHolders(100)
    this.held = this.held.filter(({ holder }) => holder !== dead)
    await this.turn(
      left.map((attempt) => this.world.again(attempt, 0, "lost")),
      0,
      0,
      this.world.holder,
    )
  }

  /** Finds rows that stay claimed because their change was rejected together with a stale one. */
  async giveBack(): Promise<void> {
    for (const holder of [this.world.holder, ...this.others]) {
      const fences = await this.world.store.listInFlight(holder)
      await this.turn(
        fences.map((held): Change => ({ ...held, kind: "release" })),
        0,
        0,
        holder,
      )
      await this.turn(
        fences.map((held) => this.world.ended(held)),
        0,
        0,
        holder,
      )
    }
  }

  /** Applies changes to all claims until every run has finished. */
  async finish(): Promise<void> {
    for (const id of this.runs) if ((await this.world.run(id)).cancelling === null) await this.world.store.setPaused(id, false)
    for (let turns = 0; ; turns++) {
      if (turns > 500) throw new Error("some run does not end")
      const busy = await this.turn(this.changes(true), 100, 100, this.world.holder)
      if (busy || this.held.length > 0) continue
      const runs = await Promise.all(this.runs.map((id) => this.world.run(id)))
      if (runs.every(({ status, hooksPending }) => isRunClosed(status) && hooksPending === 0)) return
      await this.giveBack()
      this.world.clock.pass(1000)
      for (const holder of [this.world.holder, ...this.others]) await this.world.store.renewLease(holder, 10_000)
    }
  }
}

/** Reads the states of all rows except the instances of plain fan-outs. */
export const statesOf = async (world: World, runId: RunId): Promise<RowState[]> => [
  ...(await world.store.listRowStates(runId)),
  ...(await world.store.listInnerRowStates({ runId, limit: 10_000 })),
]

const checkRun = async (chaos: Chaos, run: RunRow): Promise<void> => {
  const { store } = chaos.world
  const tasks = await store.listTasks({ runId: run.id, limit: 1000 })
  const instances = tasks.filter(({ name }) => !name.startsWith("on_"))
  const counts: Record<string, number> = {
    pending: 0,
    dispatched: 0,
    running: 0,
    success: 0,
    failed: 0,
    skipped: 0,
    cancelled: 0,
  }
  for (const { status } of instances) counts[status]!++
  expect(run.tasks).toEqual(counts)
  expect(run.hooksPending).toBe(tasks.filter(({ name, status }) => name.startsWith("on_") && !isTaskFinished(status)).length)
  const nodes = await store.listRowStates(run.id)
  if (run.status === "running") expect(nodes.some(({ status }) => !isTaskFinished(status))).toBe(true)
  if (isRunClosed(run.status)) expect(nodes.every(({ status }) => isTaskFinished(status))).toBe(true)
  if (run.status !== "running" || run.cancelling !== null) return
  const states = new Map((await statesOf(chaos.world, run.id)).map((state) => [`${state.node}/${state.path}`, state]))
  for (const task of instances) {
    const { fan } = chaos.flow.nodes[task.node]!
    if (fan === undefined && task.status === "pending") checkUpstream(chaos.flow, states, task)
  }
}

const checkUpstream = (flow: CompiledWorkflow, states: ReadonlyMap<string, RowState>, task: TaskRow): void => {
  const { upstream } = flow.nodes[task.node]!
  // Some rows of a group that is being opened do not exist yet.
  const open = upstream.filter((up) => !isTaskFinished(states.get(`${up}/${task.path}`)?.status ?? "pending"))
  expect(task.upstreamPending).toBe(open.length)
}

/** Checks that `used` of parked rows is correct and that rows in flight never exceed the cap of a limit. */
const checkLimits = (chaos: Chaos, runs: { run: RunRow; tasks: TaskRow[] }[]): void => {
  for (const { run, tasks } of runs) {
    const live = new Map<string, number>()
    const caps = new Map<string, number>()
    for (const { node, status } of tasks)
      for (const { key, cap } of limitsOf(chaos.flow, node, run.id)) {
        caps.set(key, cap)
        if (status === "dispatched" || status === "running") live.set(key, (live.get(key) ?? 0) + 1)
      }
    for (const [key, count] of live) expect(count).toBeLessThanOrEqual(caps.get(key)!)
    for (const { parked } of tasks)
      if (typeof parked === "object" && parked !== null)
        expect(parked).toEqual({ limit: parked.limit, cap: caps.get(parked.limit), used: live.get(parked.limit) ?? 0 })
  }
}

export const check = async (chaos: Chaos): Promise<void> => {
  const all = await Promise.all(
    chaos.runs.map(async (runId) => ({
      run: await chaos.world.run(runId),
      tasks: await chaos.world.store.listTasks({ runId, limit: 1000 }),
    })),
  )
  for (const { run } of all) await checkRun(chaos, run)
  checkLimits(chaos, all)
  const max = chaos.flow.maxActiveRuns
  if (max !== undefined && all.some(({ run }) => run.status === "pending" && run.cancelling === null))
    expect(all.filter(({ run }) => run.status === "running").length).toBeGreaterThanOrEqual(max)
}

export const propertyTests = (open: Open, { runs = 60 } = {}): void => {
  describe("random graphs under random changes", () => {
    it("keep their counters, limits and order, and finish every run", async () => {
      await fc.assert(
        fc.asyncProperty(planArbitrary, async (plan) => {
          const chaos = new Chaos(await setup(open, plan.seed), flowOf(plan), (node) => plan.tasks[node]?.fan ?? 0)
          chaos.runs.push((await chaos.world.start(chaos.flow)).id)
          for (const step of plan.steps) {
            await chaos.step(step)
            await check(chaos)
          }
          await chaos.finish()
          await check(chaos)
          await chaos.world.close()
        }),
        { numRuns: runs, endOnFailure: false },
      )
    }, 120_000)
  })
}
