import { setImmediate as settle } from "node:timers/promises"
import { describe, expect, it } from "vitest"
import { Loop } from "./loop.ts"
import type { EngineOptions } from "../ports.ts"
import type { Change } from "../../core/model/change.ts"
import type { AttemptId, HolderId } from "../../core/model/ids.ts"
import { InvalidValue } from "../../store/contract/errors.ts"
import { seededRandom } from "../../store/conformance/world.ts"
import type { AdvanceResult, Batch, TaskClaim } from "../../store/contract/store.ts"
import { VirtualClock } from "../../../test/sim/clock.ts"

const NOTHING: AdvanceResult = {
  rejected: [],
  claims: [],
  gateClaims: [],
  cancelling: [],
  stopRequests: [],
  closed: [],
  events: [],
  more: false,
  nextDueMs: null,
}

const changeOf = (run: number): Change => ({
  row: run,
  attemptId: `attempt-${run}` as AttemptId,
  shardKey: run,
  kind: "enqueue",
  lane: "q:default",
  limits: [],
})

/** Returns a loop with two slots, which are free at first, on a store that commits two batches at once, each when the test says so. */
const setup = () => {
  const clock = new VirtualClock()
  const open: { batch: Batch; commit: (advanced?: AdvanceResult) => void }[] = []
  const seen: Batch[] = []
  /** Tells which batches the store rejects because of a value. */
  const rejects: { batch: (batch: Batch) => boolean } = { batch: () => false }
  const slots = { free: 2 }
  const lease = { holder: "holder" as HolderId }
  const dispatched: AdvanceResult[] = []
  const store = {
    advanceConcurrency: { maxConcurrent: 2, minBatch: 1 },
    advance: (batch: Batch): Promise<AdvanceResult> => {
      seen.push(batch)
      return rejects.batch(batch)
        ? Promise.reject(new InvalidValue("no"))
        : new Promise((resolve) => open.push({ batch, commit: (advanced = NOTHING) => resolve(advanced) }))
    },
    listInFlight: async () => [],
  } as unknown as EngineOptions["store"]
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  const options = { store, clock, log, random: seededRandom(1) } as unknown as EngineOptions
  const loop = new Loop(options, {
    dispatcher: {
      idle: true,
      has: () => false,
      claimCapacity: (reserved) => ({ lanes: ["q:default"], maxClaims: Math.max(0, slots.free - reserved) }),
      gateCapacity: () => ({ lanes: ["g"], maxClaims: 5 }),
      dispatch: (advanced) => void dispatched.push(advanced),
    },
    holderId: () => lease.holder,
    publish: () => undefined,
    recovered: () => undefined,
  })
  const rest = async (): Promise<void> => {
    await settle()
    while (clock.peek() === 0) {
      clock.step()
      await settle()
    }
  }
  const commit = async (turn: (typeof open)[number], advanced?: AdvanceResult): Promise<void> => {
    open.splice(open.indexOf(turn), 1)
    turn.commit(advanced)
    await rest()
  }
  /** Commits everything, and lets time pass, until the store has got a change of this kind. */
  const untilCommitted = async (kind: Change["kind"]): Promise<void> => {
    for (;;) {
      const turns = [...open]
      for (const turn of turns) await commit(turn)
      if (turns.some(({ batch }) => batch.changes.some((change) => change.kind === kind))) return
      if (turns.length === 0 && !clock.step()) throw new Error(`no change ${kind} was committed`)
      await rest()
    }
  }
  /** Lets time pass until a turn is in flight. */
  const untilOpen = async (): Promise<void> => {
    while (open.length === 0) {
      if (!clock.step()) throw new Error("no turn is planned")
      await rest()
    }
  }
  return { loop, seen, open, rest, commit, rejects, slots, untilOpen, lease, dispatched, untilCommitted }
}

describe("Loop", () => {
  it.each([
    ["first", [0, 1]],
    ["last", [1, 0]],
  ])("claims again when a turn without capacity has made rows ready and commits %s", async (_, order) => {
    const { loop, open, rest, commit } = setup()
    loop.start()
    await rest()
    await commit(open[0]!)
    loop.add(changeOf(1))
    loop.add(changeOf(3))
    await rest()
    loop.add(changeOf(2))
    await rest()
    expect(open.map(({ batch }) => batch.work.maxClaims)).toEqual([2, 0])
    const turns = [...open]
    for (const i of order) await commit(turns[i]!)
    expect(open.map(({ batch }) => batch.work.maxClaims)).toEqual([2])
    await commit(open[0]!)
    expect(open).toEqual([])
  })

  it.each([
    ["first", [0, 1]],
    ["last", [1, 0]],
  ])("claims again when slots were freed during a turn that has made rows ready and commits %s", async (_, order) => {
    const { loop, open, rest, commit, slots } = setup()
    slots.free = 0
    loop.start()
    await rest()
    await commit(open[0]!)
    loop.add(changeOf(1))
    loop.add(changeOf(3))
    await rest()
    slots.free = 2
    loop.add(changeOf(2))
    await rest()
    expect(open.map(({ batch }) => batch.work.maxClaims)).toEqual([0, 2])
    const turns = [...open]
    for (const i of order) await commit(turns[i]!)
    expect(open.map(({ batch }) => batch.work.maxClaims)).toEqual([2])
    await commit(open[0]!)
    expect(open).toEqual([])
  })

  it("leaves half of the capacity to a second turn, however many changes that one has", async () => {
    const { loop, open, rest, commit } = setup()
    loop.start()
    await rest()
    await commit(open[0]!)
    for (const row of [1, 2, 3, 4]) loop.add(changeOf(row))
    await rest()
    expect(open.map(({ batch }) => [batch.changes.length, batch.work.maxClaims])).toEqual([
      [2, 1],
      [2, 1],
    ])
  })

  it("keeps a release that the store rejects, and commits other changes in the meantime", async () => {
    const { loop, rejects, untilCommitted } = setup()
    const { row, attemptId } = changeOf(1)
    rejects.batch = ({ changes }) => changes.some(({ kind }) => kind === "release")
    loop.start()
    loop.add({ row, attemptId, kind: "release" })
    loop.add(changeOf(2))
    await untilCommitted("enqueue")
    rejects.batch = () => false
    await untilCommitted("release")
    expect(loop.pendingChanges).toBe(0)
  })

  it("claims nothing while it commits a rejected batch in parts", async () => {
    const { loop, rejects, seen, untilCommitted } = setup()
    rejects.batch = ({ changes }) => changes.length > 1
    loop.start()
    loop.add(changeOf(1))
    loop.add(changeOf(3))
    await untilCommitted("enqueue")
    const parts = seen.filter(({ changes }) => changes.length === 1)
    expect(parts.map(({ work: claim, gate }) => [claim.maxClaims, gate.maxClaims])).toContainEqual([0, 0])
    expect(parts.every(({ gate }) => gate.maxClaims === 0)).toBe(true)
  })

  it("drops claims that arrive after their lease was lost, and claims again under the new one", async () => {
    const { loop, open, rest, commit, lease, dispatched, untilOpen } = setup()
    const claims = [2, 3].map((row) => ({ kind: "task", row }) as TaskClaim)
    const late = { ...NOTHING, claims, gateClaims: claims, rejected: [{ row: 1, attemptId: "attempt-1" as AttemptId }] }
    loop.start()
    await rest()
    lease.holder = "new-holder" as HolderId
    await commit(open[0]!, late)
    expect(dispatched).toEqual([{ ...late, claims: [], gateClaims: [] }])
    await untilOpen()
    expect(open.map(({ batch }) => [batch.holder, batch.work.maxClaims])).toEqual([["new-holder", 2]])
    await commit(open[0]!, late)
    expect(dispatched[1]).toEqual(late)
  })
})
