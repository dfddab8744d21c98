// The event log: every committed event in order, resumable, trimmed by age.

import { describe, expect, it } from "vitest"
import { workflow } from "../../../core/testing.ts"
import type { EventLog, LoggedEvent } from "../../contract/event-log.ts"
import type { Store, StoreEvent } from "../../contract/store.ts"
import { expandAll, fence, type Open, setup } from "../world.ts"

const one = workflow({ a: {} })
const HOUR = 3_600_000

export const eventLogTests = (open: Open<Store & EventLog>): void => {
  /** Reads all pages after a cursor. */
  const readAll = async (store: EventLog, after: string, limit = 100): Promise<LoggedEvent[]> => {
    const all: LoggedEvent[] = []
    for (let cursor = after; ;) {
      const page = await store.readEvents({ after: cursor, limit })
      all.push(...page.events)
      if (page.events.length < limit) return all
      cursor = page.cursor
    }
  }
  const brief = (events: readonly LoggedEvent[]): string[] =>
    events.map(({ type, task, path, status }) => `${task ?? type}${path ? `[${path}]` : ""} ${status}`)

  describe("the event log", () => {
    it("contains the events of every operation, as they were emitted, in commit order", async () => {
      const world = await setup(open)
      const { cursor } = await world.store.readEvents({ after: null, limit: 1 })
      const run = await world.start(
        workflow({ a: {}, each: { after: ["a"], fan: { foreach: { lit: [] }, reference: "items" } }, b: {} }),
      )
      const emitted: StoreEvent[] = []
      const turn = async (input: Parameters<typeof world.turn>[0]) => {
        const advanced = await world.turn(input)
        emitted.push(...advanced.events)
        return advanced
      }
      const { claims } = await turn({ claim: 9 })
      world.clock.pass(7)
      await turn({ changes: [world.ended(claims[0]!), world.again(claims[1]!, 500)] })
      const { gateClaims: gates } = await turn({ gate: 1 })
      await turn({ changes: [expandAll(gates[0]!, ["x", "y"])] })
      const logged = await readAll(world.store, cursor)
      expect(brief(logged)).toEqual([
        "run running",
        "a dispatched",
        "b dispatched",
        "a running",
        "a success",
        "b running",
        "b pending",
        "each running",
      ])
      expect(logged.slice(1)).toEqual(emitted.map((event) => ({ ...event, id: expect.any(String) })))
      expect(logged[6]).toMatchObject({ error: "it broke", availableAt: "2026-03-01T00:00:00.507Z" })
      expect(logged[7]).toMatchObject({ total: 2, runId: run.id })
      await world.store.requestCancel(run.id, "cancel")
      await world.turn()
      expect(brief(await readAll(world.store, logged.at(-1)!.id))).toEqual([
        "b cancelled",
        "each[0] cancelled",
        "each[1] cancelled",
      ])
    })

    it("resumes after any event, whatever the size of the page", async () => {
      const world = await setup(open)
      const { cursor } = await world.store.readEvents({ after: null, limit: 1 })
      await world.start(workflow({ a: {}, b: {}, c: {} }))
      await world.turn({ changes: (await world.claim()).map((claim) => world.ended(claim)) })
      const all = await readAll(world.store, cursor)
      expect(all).toHaveLength(1 + 3 + 6 + 1)
      for (const limit of [1, 2, 3]) expect(await readAll(world.store, cursor, limit)).toEqual(all)
      for (const [i, { id }] of all.entries())
        expect((await world.store.readEvents({ after: id, limit: 100 })).events).toEqual(all.slice(i + 1))
    })

    it("starts with the next commit", async () => {
      const world = await setup(open)
      await world.start(one)
      const begin = await world.store.readEvents({ after: null, limit: 9 })
      expect(begin).toMatchObject({ events: [], gap: false })
      expect(await world.store.readEvents({ after: begin.cursor, limit: 9 })).toEqual({ ...begin })
      await world.claim()
      expect(brief((await world.store.readEvents({ after: begin.cursor, limit: 9 })).events)).toEqual(["a dispatched"])
    })

    it("returns the events of one run and moves past those of others", async () => {
      const world = await setup(open)
      const { cursor } = await world.store.readEvents({ after: null, limit: 1 })
      const mine = await world.start(one)
      const other = await world.start(one)
      await world.claim()
      const found = await world.store.readEvents({ after: cursor, runId: mine.id, limit: 9 })
      expect(brief(found.events)).toEqual(["run running", "a dispatched"])
      expect(found.events.every(({ runId }) => runId === mine.id)).toBe(true)
      const next = await world.store.readEvents({ after: found.cursor, runId: mine.id, limit: 9 })
      expect(next.events).toEqual([])
      expect(await world.store.readEvents({ after: next.cursor, runId: other.id, limit: 9 })).toMatchObject({ events: [] })
    })

    it("contains pending and retried runs", async () => {
      const world = await setup(open)
      const { cursor } = await world.store.readEvents({ after: null, limit: 1 })
      const flow = workflow({ a: {} }, { maxActiveRuns: 1 })
      const first = await world.start(flow)
      await world.start(flow)
      expect(brief(await readAll(world.store, cursor))).toEqual(["run running", "run pending"])
      await world.turn({ changes: [world.ended((await world.claim())[0]!, "failed")] })
      const after = (await world.store.readEvents({ after: null, limit: 1 })).cursor
      const upstream = { failed: 0, unmet: 0, waived: 0 }
      const reset = { node: 0, path: "", extent: "all", upstreamPending: 0, upstream } as const
      await world.store.retryRun(first.id, { rows: [{ ...reset, lane: "q:default", instanceLane: "q:default" }] })
      expect(brief(await readAll(world.store, after))).toEqual(["run pending"])
    })

    it("contains the start of a pending run, although a repeated creation comes between", async () => {
      const world = await setup(open)
      const narrow = await world.deploy(workflow({ a: {} }, { maxActiveRuns: 1 }))
      const wide = await world.deploy(workflow({ a: {} }, { maxActiveRuns: 2 }))
      const create = async (version: typeof wide, idempotencyKey: string | null = null) =>
        (await world.store.createRuns([world.newRun(version, { idempotencyKey })]))[0]!.run
      await create(wide, "key")
      const held = await create(narrow)
      const behind = await create(wide)
      const { cursor } = await world.store.readEvents({ after: null, limit: 1 })
      await world.store.requestCancel(held.id, "cancel")
      await create(wide, "key")
      await world.turn()
      const runs = (await readAll(world.store, cursor)).map(({ runId, status }) => [runId, status])
      expect(runs).toHaveLength(2)
      expect(runs).toEqual(
        expect.arrayContaining([
          [held.id, "cancelled"],
          [behind.id, "running"],
        ]),
      )
      expect(await world.run(behind.id)).toMatchObject({ status: "running" })
    })

    it("contains nothing about rejected or ineffective changes", async () => {
      const world = await setup(open)
      await world.start(one)
      const [claim] = await world.claim()
      await world.turn({ changes: [world.ended(claim!)] })
      const { cursor } = await world.store.readEvents({ after: null, limit: 1 })
      await world.turn({ changes: [world.ended(claim!, "failed"), { ...fence(claim!), kind: "started", at: 0 }] })
      await world.turn()
      expect(await readAll(world.store, cursor)).toEqual([])
    })

    it("removes old batches in bounded steps and reports the gap", async () => {
      const world = await setup(open)
      await world.start(one)
      const old = (await world.store.readEvents({ after: null, limit: 1 })).cursor
      await world.start(one)
      world.clock.pass(HOUR)
      await world.start(one)
      const kept = (await world.store.readEvents({ after: null, limit: 1 })).cursor
      world.clock.pass(1)
      await world.start(one)
      expect(await world.store.trimEvents({ olderThanMs: HOUR, limit: 1 })).toBe(1)
      expect(await world.store.trimEvents({ olderThanMs: HOUR, limit: 9 })).toBe(1)
      expect(await world.store.trimEvents({ olderThanMs: HOUR, limit: 9 })).toBe(0)
      const lost = await world.store.readEvents({ after: old, limit: 9 })
      expect(lost.gap).toBe(true)
      expect(brief(lost.events)).toEqual(["run running", "run running"])
      expect(await world.store.readEvents({ after: kept, limit: 9 })).toMatchObject({ gap: false, events: [{ type: "run" }] })
    })

    it("never reuses a batch number, even after everything was removed", async () => {
      const world = await setup(open)
      await world.start(one)
      const { cursor } = await world.store.readEvents({ after: null, limit: 1 })
      world.clock.pass(2 * HOUR)
      await world.store.trimEvents({ olderThanMs: HOUR, limit: 9 })
      await world.start(one)
      const next = await world.store.readEvents({ after: cursor, limit: 9 })
      expect(next.gap).toBe(false)
      expect(brief(next.events)).toEqual(["run running"])
    })
  })
}
