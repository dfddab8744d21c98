import { afterAll, describe, expect, it } from "vitest"
import { describeFailure, Simulator } from "./simulator.ts"

const simulator = await Simulator.create("postgres")
afterAll(() => simulator.close())

describe("the simulation on Postgres, at length", () => {
  it("finds no violated invariant in 300 seeds", { timeout: 3_600_000 }, async () => {
    for (let seed = 1000; seed < 1300; seed++) expect(describeFailure(await simulator.run(seed)).join("\n")).toBe("")
  })
})
