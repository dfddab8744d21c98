import { afterAll, describe, expect, it } from "vitest"
import { type Outcome, Simulator } from "./simulate.ts"

const simulator = new Simulator()
afterAll(() => simulator.close())

const told = ({ seed, failure }: Outcome): string | null =>
  failure === null
    ? null
    : [`seed ${seed}: ${failure.message}`, ...failure.tail, ...failure.state, `npm run sim -- --seed ${seed} --trace`].join(
        "\n",
      )

describe("the simulation", () => {
  it("keeps every invariant over 200 seeds", { timeout: 300_000 }, async () => {
    for (let seed = 1; seed <= 200; seed++) expect(told(await simulator.run(seed))).toBeNull()
  })

  it("replays a seed bit for bit", async () => {
    for (const seed of [7, 76, 116, 154]) {
      const first = await simulator.run(seed)
      const second = await simulator.run(seed)
      expect(second).toEqual(first)
      expect(first.events).toBeGreaterThan(10)
    }
  })

  it("plays another world for another seed", async () => {
    const digests = new Set<string>()
    for (let seed = 300; seed < 310; seed++) digests.add((await simulator.run(seed)).digest)
    expect(digests.size).toBe(10)
  })
})
