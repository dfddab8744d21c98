import { afterAll, describe, expect, it } from "vitest"
import { describeFailure, Simulator } from "./simulator.ts"

const simulator = await Simulator.create("postgres")
afterAll(() => simulator.close())

describe("the simulation on Postgres", () => {
  it("finds no violated invariant in 5 seeds, and replays one exactly", { timeout: 600_000 }, async () => {
    for (let seed = 1; seed <= 5; seed++) {
      const outcome = await simulator.run(seed)
      expect(describeFailure(outcome).join("\n")).toBe("")
      if (seed === 1) expect(await simulator.run(seed)).toEqual(outcome)
    }
  })
})
