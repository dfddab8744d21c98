import { afterAll, describe, expect, it } from "vitest"
import { describeFailure, Simulator } from "./simulator.ts"

const simulator = await Simulator.create("sqlite")
afterAll(() => simulator.close())

describe("the simulation on SQLite", () => {
  it("finds no violated invariant in 100 seeds", { timeout: 300_000 }, async () => {
    for (let seed = 1; seed <= 100; seed++) expect(describeFailure(await simulator.run(seed)).join("\n")).toBe("")
  })

  it.each([[6_284_039_850, "an engine stops the attempt of a function that it has resumed to end"]])(
    "passes seed %i, which found a bug: %s",
    async (seed) => {
      expect(describeFailure(await simulator.run(seed)).join("\n")).toBe("")
    },
  )

  it("replays a seed exactly", async () => {
    for (const seed of [7, 76, 116, 154]) {
      const first = await simulator.run(seed)
      const second = await simulator.run(seed)
      expect(second).toEqual(first)
      expect(first.events).toBeGreaterThan(10)
    }
  })

  it("simulates something different for each seed", async () => {
    const digests = new Set<string>()
    for (let seed = 300; seed < 310; seed++) digests.add((await simulator.run(seed)).digest)
    expect(digests.size).toBe(10)
  })
})
