// Rows that are claimed by the statement that unblocks them: they must look like rows of any other claim.

import fc from "fast-check"
import pg from "pg"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { ask, createDatabase, type TestDatabase } from "../../../../test/support/components/postgres.ts"
import { enforceRules } from "../../../../test/support/components/postgres-rules.ts"
import type { Change } from "../../../core/model/change.ts"
import type { RunId } from "../../../core/model/ids.ts"
import { QUEUE_WILDCARD, REMOTE_WILDCARD } from "../../../core/routing/lanes.ts"
import { iso } from "../../../core/model/ports.ts"
import { planRetry } from "../../../core/rules/runs/retry-plan.ts"
import { type NodeInput, workflow } from "../../../core/testing.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { Chaos, check, statesOf } from "../../conformance/runs/property.ts"
import { GATE, names, type Open, setup, type Turn, type TurnInput, WORK, type World } from "../../conformance/world.ts"
import { decodeEvents } from "../../shared/event-codec.ts"
import type { ServerStore } from "../../contract/server-store.ts"
import type { StoreEvent, TaskClaim } from "../../contract/store.ts"
import { openPostgres } from "../postgres.ts"

let database: TestDatabase
let schema = ""
let schemas = 0

beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

/** Queries the tables of the current test directly. */
const query = <T extends Record<string, unknown>>(text: string): Promise<T[]> => {
  const url = new URL(database.url)
  url.searchParams.set("options", `-c search_path=${schema}`)
  return ask(url.href, text)
}

/** The connection listens, or has listened and then asked whether the server responds. */
const LISTENING =
  "SELECT 1 FROM pg_stat_activity WHERE application_name = 'ork listen' AND query IN ($1, 'SELECT 1') AND state = 'idle' AND datname = current_database()"

/** Opens a store that listens, as a server's does. A trigger records each row that is enqueued. */
const open: Open<ServerStore> = async ({ clock, random }) => {
  schema = `successes_${++schemas}`
  const store = await openPostgres({ url: database.url, clock, random, schema })
  await store.migrate()
  await enforceRules(database.url, schema)
  await query(`CREATE TABLE enqueued (id bigint);
    CREATE FUNCTION record() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN INSERT INTO ${schema}.enqueued VALUES (NEW.id); RETURN NULL; END $$;
    CREATE TRIGGER record AFTER INSERT ON ready_queue FOR EACH ROW EXECUTE FUNCTION record()`)
  store.onWake(() => {})
  while ((await ask(database.url, LISTENING, [`LISTEN "ork_${schema}"`])).length === 0);
  return { store, close: () => store.close() }
}

/** Opens a second store on the same tables. */
const another = async ({ clock, random }: World): Promise<ServerStore> => {
  const store = await openPostgres({ url: database.url, clock, random, schema })
  onTestFinished(() => store.close())
  return store
}

const enqueued = async (): Promise<number> => (await query<{ n: number }>("SELECT count(*)::int AS n FROM enqueued"))[0]!.n

/** Counts the rows that were claimed and never enqueued. */
const neverEnqueued = async (): Promise<number> => {
  const NEVER = "SELECT count(*)::int AS n FROM tasks WHERE attempt > 0 AND id NOT IN (SELECT id FROM enqueued)"
  return (await query<{ n: number }>(NEVER))[0]!.n
}

/** Reads all events of the log. */
const logged = async (): Promise<StoreEvent[]> => {
  const batches = await query<{ at: Date; runs: string; events: string }>("SELECT at, runs, events FROM events ORDER BY batch")
  return batches.flatMap(({ at, runs, events }) => decodeEvents(JSON.parse(runs) as RunId[], events, iso(at.getTime())))
}

/** Events that only turns emit. */
const ofTurns = (events: readonly StoreEvent[]): StoreEvent[] =>
  events.filter(({ type, status }) => type === "task" && status !== "pending")

const CHAIN = workflow({ a: {}, b: { after: ["a"] }, c: { after: ["b"] } })

/** Finishes these claims, and claims what it can. */
const next = (world: World, claims: readonly TaskClaim[], input: TurnInput = {}): Promise<Turn> =>
  world.turn({ changes: claims.map((claim) => world.ended(claim, "success", claim.node)), claim: 5, gate: 5, ...input })

/** Starts a run and returns its first claims. */
const begin = async (world: World, flow: CompiledWorkflow, input: TurnInput = {}): Promise<TaskClaim[]> => {
  await world.start(flow)
  return (await world.turn({ claim: 5, gate: 5, ...input })).claims
}

describe("a task that becomes ready while no other is", () => {
  it("is claimed by the statement that unblocks it", async () => {
    const world = await setup(open)
    const events: StoreEvent[] = []
    let claims = await begin(world, CHAIN)
    for (const name of ["b", "c"]) {
      const turn = await next(world, claims)
      expect(names(world, turn.claims)).toEqual([name])
      expect(turn).toMatchObject({ rejected: [], gateClaims: [], closed: [], more: false })
      claims = turn.claims
      events.push(...turn.events)
    }
    expect(await enqueued()).toBe(1)
    expect(events.map(({ task, status }) => `${task} ${status}`)).toEqual([
      "a running",
      "a success",
      "b dispatched",
      "b running",
      "b success",
      "c dispatched",
    ])
    expect((await next(world, claims)).closed).toMatchObject([{ status: "success" }])
    expect((await logged()).slice(2, 8)).toEqual(events)
  })

  it("is claimed by a claim from every queue", async () => {
    const world = await setup(open)
    const lanes = [QUEUE_WILDCARD]
    const claims = await begin(world, CHAIN, { lanes })
    expect(names(world, (await next(world, claims, { lanes })).claims)).toEqual(["b"])
    expect(await enqueued()).toBe(1)
  })

  it("is claimed like any other", async () => {
    const world = await setup(open)
    const flow = workflow({ a: {}, b: { after: ["a"], reads: [0] }, c: { after: ["b"], reads: [0, 1] } })
    const claimsBy = async (claim: (claims: TaskClaim[]) => Promise<TaskClaim[]>): Promise<unknown[]> => {
      let claims = await begin(world, flow)
      const { runId, runSeq } = claims[0]!
      const seen: unknown[] = []
      while (claims.length > 0) {
        claims = await claim(claims)
        for (const { row, attemptId, runId: of, runSeq: seq, ...claim } of claims) {
          expect({ of, seq, row: row > 0, id: attemptId.length }).toEqual({ of: runId, seq: runSeq, row: true, id: 36 })
          const shown = await world.task(runId, names(world, claims)[0]!)
          seen.push(claim, [shown.status, shown.attempt, shown.worker, shown.dispatchedAt, shown.startedAt])
        }
      }
      return seen
    }
    const quick = await claimsBy(async (claims) => (await next(world, claims)).claims)
    const before = await enqueued()
    const slow = await claimsBy(async (claims) => {
      await next(world, claims, { claim: 0 })
      return world.claim(5)
    })
    expect(quick).toHaveLength(4)
    expect(slow).toEqual(quick)
    expect([before, await enqueued()]).toEqual([1, 4])
  })

  it("is claimed as the next attempt in a run that was retried", async () => {
    const world = await setup(open)
    let claims = await begin(world, CHAIN)
    const { runId } = claims[0]!
    while (claims.length > 0) ({ claims } = await next(world, claims))
    const plan = planRetry(CHAIN, await world.run(runId), await statesOf(world, runId), { from: "a" })
    if ("reset" in plan) await world.store.retryRun(runId, plan.reset)
    ;({ claims } = await world.turn({ claim: 5, gate: 5 }))
    ;({ claims } = await next(world, claims))
    expect(claims).toMatchObject([{ node: 1, attempt: 2 }])
    expect((await logged()).at(-1)).toMatchObject({ task: "b", status: "dispatched", attempt: 2 })
  })
})

/** Names what this turn and the turns that it asks for have claimed. */
const all = async (world: World, turn: Turn): Promise<string[]> => {
  const taken = names(world, [...turn.claims, ...turn.gateClaims])
  return turn.more ? [...taken, ...(await all(world, await world.turn({ claim: 5, gate: 5 })))] : taken
}

describe("an unblocked task that may not be claimed at once", () => {
  it("waits behind tasks that rank before it, whoever created them", async () => {
    const world = await setup(open)
    const claims = await begin(world, CHAIN)
    const other = await another(world)
    const urgent = { ...workflow({ urgent: {} }), name: "urgent", priority: 9 }
    const version = await other.putWorkflow({ compiled: urgent, hash: "urgent", source: "", deploy: true })
    await other.createRuns([world.newRun(version)])
    const order: string[] = []
    for (let turn = await next(world, claims, { claim: 1 }); order.length < 2;) {
      order.push(...turn.claims.map(({ run, node }) => `${run.workflow} ${node}`))
      turn = await next(world, turn.claims, { claim: 1 })
    }
    expect(order).toEqual(["urgent 0", "test 1"])
  })

  it("uses slots of its limits", async () => {
    const world = await setup(open)
    const claims = await begin(world, workflow({ a: {}, b: { after: ["a"], concurrency: 1 }, c: { after: ["a"] } }))
    expect(await all(world, await next(world, claims))).toEqual(["c", "b"])
    expect(await query("SELECT used FROM limits")).toEqual([{ used: 1 }])
  })

  it("uses slots of its queue", async () => {
    const world = await setup(open)
    const claims = await begin(world, workflow({ a: {}, b: { after: ["a"], queue: "few" }, c: { after: ["a"], queue: "few" } }))
    await (await another(world)).putQueue("few", { concurrency: 1 })
    const lanes = [QUEUE_WILDCARD]
    const turn = await next(world, claims, { lanes })
    const then = turn.more ? (await world.turn({ claim: 5, lanes })).claims : []
    expect(names(world, [...turn.claims, ...then])).toEqual(["b"])
  })

  it.each(["paused = true", "cancelling = 'cancel'"])("is not claimed when its run has %s by now", async (state) => {
    const world = await setup(open)
    const claims = await begin(world, CHAIN)
    await query(`UPDATE runs SET ${state}`)
    expect((await next(world, claims)).claims).toEqual([])
    expect((await world.task(claims[0]!.runId, "a")).status).toBe("success")
  })

  it("goes to the gate first", async () => {
    const world = await setup(open)
    const claims = await begin(world, workflow({ a: {}, b: { after: ["a"], gated: true }, c: { after: ["a"] } }))
    expect((await all(world, await next(world, claims))).toSorted()).toEqual(["b", "c"])
  })

  it("is not claimed by a holder that was found dead", async () => {
    const world = await setup(open)
    const claims = await begin(world, CHAIN)
    await query("UPDATE holders SET dead = true")
    expect((await next(world, claims)).claims).toEqual([])
    expect(await world.statuses(claims[0]!.runId)).toMatchObject({ a: "success", b: "pending" })
  })

  it("reads an outcome that was overridden in the meantime", async () => {
    const world = await setup(open)
    const [a, x] = (await begin(world, workflow({ a: {}, x: {}, c: { after: ["a", "x"], reads: [1] } }))) as [
      TaskClaim,
      TaskClaim,
    ]
    await next(world, [x])
    const other = await another(world)
    const marked = { runId: a.runId, name: "x", path: "", reason: "by hand" } as const
    await other.overrideOutcome({ ...marked, status: "failed" })
    await other.overrideOutcome({ ...marked, status: "success" })
    const turn = await next(world, [a])
    const later = turn.more ? await world.turn({ claim: 5, gate: 5 }) : null
    const [c] = [turn, later].flatMap((one) => (one === null ? [] : [...one.claims, ...one.gateClaims]))
    expect(c!.reads.get(1)).toEqual({ status: "success", output: { inline: 1 } })
    expect(c!.run.status).toBe("running")
  })
})

describe("a turn of successes", () => {
  it("rejects the attempt that lost its fence, and finishes the others", async () => {
    const world = await setup(open)
    const claims = await begin(world, workflow({ a: {}, b: {}, c: { after: ["a", "b"] } }))
    const [lost] = claims as [TaskClaim]
    await query(`UPDATE tasks SET attempt_id = gen_random_uuid() WHERE id = ${lost.row}`)
    const { rejected, events, claims: taken } = await next(world, claims)
    expect(rejected).toEqual([{ row: lost.row, attemptId: lost.attemptId }])
    expect(taken).toEqual([])
    expect(events.map(({ task, status }) => `${task} ${status}`)).toEqual(["b running", "b success"])
    expect(ofTurns(await logged()).slice(2)).toEqual(events)
    expect((await world.task(lost.runId, "c")).upstreamPending).toBe(1)
  })

  it("closes the run whose last open task has finished", async () => {
    const world = await setup(open)
    const claims = await begin(world, workflow({ a: {}, b: { after: ["a"] } }))
    await query("UPDATE tasks SET status = 'cancelled', finished_at = now() WHERE node = 1")
    await query("UPDATE runs SET open_tasks = open_tasks - 1, tasks_cancelled = tasks_cancelled + 1")
    expect((await next(world, claims)).closed).toMatchObject([{ status: "success" }])
  })

  it("frees the slots of a queue", async () => {
    const world = await setup(open)
    const claims = await begin(world, CHAIN)
    await (await another(world)).putQueue("default", { concurrency: 1 })
    let turn = await next(world, claims)
    const seen: string[] = []
    for (; turn.claims.length > 0 || turn.more; turn = await next(world, turn.claims)) seen.push(...names(world, turn.claims))
    expect(seen).toEqual(["b", "c"])
    expect(await query("SELECT used FROM limits")).toEqual([{ used: 0 }])
  })

  it("claims what was ready before, also when its own tasks stay blocked", async () => {
    const world = await setup(open)
    await world.start(workflow({ a: {}, x: {}, c: { after: ["a", "x"] } }))
    const { claims } = await world.turn({ claim: 1, gate: 5 })
    await world.turn({ claim: 9, gate: 5, lanes: [REMOTE_WILDCARD] })
    const turn = await next(world, claims, { claim: 1 })
    const then = turn.more ? (await world.turn({ claim: 1, gate: 5 })).claims : []
    expect(names(world, [...turn.claims, ...then])).toEqual(["x"])
  })

  it("claims at once although another queue has settings", async () => {
    const world = await setup(open)
    await world.store.putQueue("other", { paused: true })
    const lanes = [QUEUE_WILDCARD]
    let claims = await begin(world, CHAIN, { lanes })
    for (const name of ["b", "c"]) {
      ;({ claims } = await next(world, claims, { lanes }))
      expect(names(world, claims)).toEqual([name])
    }
    expect(await enqueued()).toBe(1)
  })

  it("frees the slots of its queue for others, one task after the other", async () => {
    const world = await setup(open)
    await world.store.putQueue("default", { concurrency: 9 })
    const wide = workflow({
      ...Object.fromEntries(["a", "b", "c", "d"].map((name) => [name, {}])),
      last: { after: ["a", "b", "c", "d"] },
    })
    const claims = await begin(world, wide)
    expect(claims).toHaveLength(4)
    const lanes = ["q:mine"]
    await world.turn({ claim: 5, gate: 5, lanes })
    for (const claim of claims) expect((await next(world, [claim], { lanes })).rejected).toEqual([])
    expect(await query("SELECT used FROM limits")).toEqual([{ used: 0 }])
  })

  it("logs its events in the order of the turns of its run", async () => {
    const world = await setup(open)
    const other = await another(world)
    const claims = await begin(world, workflow({ a: {}, x: {}, c: { after: ["a", "x"] } }))
    const [a, x] = claims as [TaskClaim, TaskClaim]
    const lock = new pg.Client({ connectionString: database.url })
    await lock.connect()
    onTestFinished(() => lock.end())
    await lock.query(`BEGIN; SELECT 1 FROM ${schema}.runs FOR UPDATE`)
    const holder = await world.join("second")
    const wanted = { work: { lanes: [WORK], maxClaims: 0 }, gate: { lanes: [GATE], maxClaims: 0 } }
    const first = other.advance({ holder, changes: [world.ended(x)], ...wanted })
    await waiting(1)
    const second = next(world, [a])
    await waiting(2)
    await lock.query("COMMIT")
    expect((await first).rejected).toEqual([])
    expect(names(world, (await second).claims)).toEqual(["c"])
    const emitted = ofTurns(await logged()).map(({ task, status }) => `${task} ${status}`)
    expect(emitted.slice(-5)).toEqual(["x running", "x success", "a running", "a success", "c dispatched"])
  })
})

/** Resolves when that many turns wait for a lock. */
const waiting = async (count: number): Promise<void> => {
  const WAITING =
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = 'ork advance'"
  while ((await query<{ n: number }>(WAITING))[0]!.n < count);
}

describe("a turn of several runs", () => {
  it("enqueues none of the tasks that it claims at once", async () => {
    const world = await setup(open)
    for (let i = 0; i < 4; i++) await world.start(CHAIN)
    let { claims } = await world.turn({ claim: 1 })
    for (const limit of [3, 4]) ({ claims } = await next(world, claims, { claim: limit }))
    expect(claims).toHaveLength(4)
    expect(await enqueued()).toBe(4)
  })

  it.each([
    ["nobody claimed", { a: {}, b: { after: ["a"] }, c: { after: ["a"] } }],
    ["is not for it, though it claims others", { a: {}, x: {}, b: { after: ["a"], queue: "theirs" } }],
  ])("wakes other stores for a task that %s", async (_, tasks) => {
    const world = await setup(open)
    const other = await another(world)
    await world.start(workflow(tasks))
    const { claims } = await world.turn({ claim: 1 })
    const woken = Promise.withResolvers<void>()
    other.onWake(woken.resolve)
    while ((await ask(database.url, LISTENING, [`LISTEN "ork_${schema}"`])).length === 0);
    expect((await next(world, claims, { claim: 1 })).claims).toHaveLength(1)
    await woken.promise
  })
})

/** Random changes, mostly successes of plain graphs in turns with a large limit. */
class Calm extends Chaos {
  override changes(all = false): Change[] {
    const taken = this.held.filter(() => all || this.chance(3) > 0)
    this.held = this.held.filter((held) => !taken.includes(held))
    return taken.flatMap(({ claim, gate }) => {
      if (gate) return this.evaluate(claim)
      return this.chance(12) === 0 ? this.end(claim, all) : [this.world.ended(claim, "success", claim.row)]
    })
  }

  override async step(kind: number): Promise<void> {
    if (kind <= 5) return super.step(kind)
    await this.turn(this.changes(), 1 + this.chance(12), 5, this.world.holder)
  }
}

const plainFlow = (tasks: { after: number[]; gated: boolean; concurrency: number | null }[]): CompiledWorkflow =>
  workflow(
    Object.fromEntries(
      tasks.map(({ after, gated, concurrency }, i): [string, NodeInput] => {
        const input: NodeInput = { after: i === 0 ? [] : [...new Set(after.map((up) => `t${up % i}`))] }
        if (gated) input.rule = "all_done"
        if (concurrency !== null) input.concurrency = concurrency
        return [`t${i}`, input]
      }),
    ),
  )

describe("random plain graphs", () => {
  it("keep their counters, log what they did, and every run ends", async () => {
    let claimedAtOnce = 0
    const plan = fc.record({
      seed: fc.nat(),
      tasks: fc.array(
        fc.record({
          after: fc.array(fc.nat({ max: 9 }), { minLength: 1, maxLength: 2 }),
          gated: fc.nat({ max: 9 }).map((n) => n === 0),
          concurrency: fc.nat({ max: 9 }).map((n) => (n === 0 ? 1 : null)),
        }),
        { minLength: 3, maxLength: 10 },
      ),
      steps: fc.array(fc.nat({ max: 40 }), { minLength: 5, maxLength: 30 }),
    })
    await fc.assert(
      fc.asyncProperty(plan, async ({ seed, tasks, steps }) => {
        const world = await setup(open, seed)
        const emitted: StoreEvent[] = []
        const turn: World["turn"] = async (input) => {
          const advanced = await world.turn(input)
          emitted.push(...advanced.events)
          expect(advanced.claims.length).toBeLessThanOrEqual(input?.claim ?? 0)
          return advanced
        }
        const calm = new Calm({ ...world, turn }, plainFlow(tasks), () => 0)
        calm.runs.push((await world.start(calm.flow)).id, (await world.start(calm.flow)).id)
        for (const step of steps) {
          await calm.step(step)
          await check(calm)
        }
        await calm.finish()
        await check(calm)
        claimedAtOnce += await neverEnqueued()
        expect(ofTurns(await logged())).toEqual(ofTurns(emitted))
        await world.close()
      }),
      { numRuns: process.env["ORK_TEST_ALL"] === "1" ? 40 : 15, endOnFailure: false },
    )
    expect(claimedAtOnce).toBeGreaterThan(20)
  }, 120_000)
})
