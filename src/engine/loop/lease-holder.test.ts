import { setImmediate as settle } from "node:timers/promises"
import { expect, test } from "vitest"
import { LeaseHolder } from "./lease-holder.ts"
import type { EngineOptions } from "../ports.ts"
import type { GuardedLease } from "../../store/contract/store.ts"
import { seededRandom } from "../../store/conformance/world.ts"
import { VirtualClock } from "../../../test/sim/clock.ts"

/** Returns a holder on a store with leases, where calls of `reapHolders` wait for `blocked`. It has started, unless that waits. */
const setup = async ({ blocked = null }: { blocked?: Promise<void> | null } = {}) => {
  const clock = new VirtualClock()
  const state = { renewals: 0, evicted: 0, wakes: 0, reaps: 0, blocked, leased: true, guards: [] as GuardedLease[] }
  const store = {
    usesLeases: true,
    extendWorkerLeases: async () => {},
    registerHolder: async () => {},
    renewLease: async () => {
      state.renewals += 1
      return state.leased
    },
    listAbandonedRuns: async () => [],
    guardLease: (lease: GuardedLease) => {
      state.guards.push(lease)
      return () => void state.guards.splice(state.guards.indexOf(lease), 1)
    },
    reapHolders: async () => {
      state.reaps += 1
      await state.blocked
      return []
    },
  }
  const options = {
    store,
    clock,
    random: seededRandom(1),
    log: { info: () => {}, warn: () => {}, error: () => {} },
    holder: { kind: "server", name: "server", process: "1" },
    executors: new Map(),
    lanes: [],
    stallMs: 60_000,
  } as unknown as EngineOptions
  const holder = new LeaseHolder(options, {
    submit: () => {},
    evicted: () => void (state.evicted += 1),
    wake: () => void (state.wakes += 1),
    adopted: () => {},
    abandoned: () => {},
  })
  const started = holder.start()
  if (blocked === null) await started
  /** Lets virtual time pass. */
  const pass = async (ms: number): Promise<void> => {
    const end = clock.now() + ms
    clock.after(ms, () => {})
    await settle()
    while (clock.now() < end) {
      clock.step()
      await settle()
    }
  }
  return { holder, state, started, pass }
}

test("the lease is renewed while dead holders cannot be reaped, because no connection is free", async () => {
  const { state, pass } = await setup()
  const blocked = Promise.withResolvers<void>()
  state.blocked = blocked.promise
  await pass(13_000)
  expect(state.renewals).toBe(6)
  expect(state.reaps).toBe(2)
  blocked.resolve()
  await pass(2000)
  expect(state).toMatchObject({ renewals: 7, reaps: 3 })
})

test("the lease is renewed while the first reaping, at the start, takes longer than the lease", async () => {
  const blocked = Promise.withResolvers<void>()
  const { state, started, pass } = await setup({ blocked: blocked.promise })
  await pass(13_000)
  expect(state).toMatchObject({ renewals: 6, reaps: 1 })
  blocked.resolve()
  await started
  await pass(2000)
  expect(state).toMatchObject({ renewals: 7, reaps: 2 })
})

test("a holder that cannot start does not renew its lease", async () => {
  const blocked = Promise.withResolvers<void>()
  const { state, started, pass } = await setup({ blocked: blocked.promise })
  await pass(3000)
  blocked.reject(new Error("the database is gone"))
  await expect(started).rejects.toThrow("the database is gone")
  await pass(20_000)
  expect(state.renewals).toBe(1)
})

test("dead holders are reaped and the loop is woken after each renewal", async () => {
  const { state, pass } = await setup()
  await pass(5000)
  expect(state).toMatchObject({ renewals: 2, reaps: 3, wakes: 2, evicted: 0 })
})

test("a holder that has lost its lease registers under a new id and reaps at once: its own attempts may be there", async () => {
  const { holder, state, pass } = await setup()
  const { id } = holder
  state.leased = false
  await pass(3000)
  expect(state).toMatchObject({ evicted: 1, reaps: 2 })
  expect(holder.id).not.toBe(id)
})

test("the lease is guarded once, from the first work to an eviction, and again under the new id", async () => {
  const { holder, state } = await setup()
  expect(state.guards).toEqual([])
  holder.guard()
  holder.guard()
  const { id } = holder
  expect(state.guards).toMatchObject([{ id, stallMs: 60_000 }])
  state.leased = false
  state.guards[0]!.onEvicted()
  await settle()
  expect(state).toMatchObject({ evicted: 1, guards: [] })
  holder.guard()
  expect(state.guards).toMatchObject([{ id: holder.id }])
  expect(holder.id).not.toBe(id)
})
