// A slice of `npm run schedules`, and its counterpart with a scheduler that loses ticks.

import { expect, test } from "vitest"
import type { ServerStore } from "../../../src/store/contract/server-store.ts"
import { temporaryFolder } from "../../support/ork.ts"
import { compareTicks } from "./compare.ts"
import { playYears } from "./years.ts"

test("expressions tick when the oracle says so, in zones of all kinds", () => {
  const zones = ["Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata"]
  const { differences, ticks } = compareTicks({ seed: 7, first: 0, count: 30, zones, windows: 2 })
  expect(differences).toEqual([])
  expect(ticks).toBeGreaterThan(1000)
})

test("each tick fires once in every mode of overlap and catch-up, through kills and clock steps", async () => {
  const { violations, runs, kills, clockSteps } = await playYears({ days: 12, seed: 3, folder: temporaryFolder() })
  expect(violations).toEqual([])
  expect(Math.min(kills, clockSteps)).toBeGreaterThan(0)
  expect(runs).toBeGreaterThan(100)
})

test("a store that loses ticks is found out", async () => {
  let fired = 0
  const losing = (store: ServerStore): ServerStore => ({
    ...store,
    fireTicks: (ticks) =>
      store.fireTicks(ticks.map((tick) => (++fired % 20 === 0 ? { ...tick, run: null, skipped: null } : tick))),
  })
  const { violations } = await playYears({ days: 4, seed: 3, folder: temporaryFolder(), change: losing })
  expect(violations.join("\n")).toContain("was due, but has no run")
})
