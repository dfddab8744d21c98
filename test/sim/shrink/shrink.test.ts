import { expect, test } from "vitest"
import { makeScenario, type Scenario } from "../scenario/scenario.ts"
import { describeWorld, shrink } from "./shrink.ts"

const create = (seed: number): Scenario => makeScenario(seed, { leasesOnly: false })

/** A bug that needs a cancelled run of a workflow with a fan-out. */
const fails = ({ runs, actions, workflows }: Scenario): boolean =>
  actions.some(({ kind, run }) => {
    const { nodes } = workflows[runs[run]!.workflow]!
    return kind === "cancel" && nodes.some(({ items, node }) => items !== null && node.group === null)
  })

const failing = Array.from({ length: 400 }, (_, seed) => seed).filter((seed) => fails(create(seed)))

test("a world shrinks to what its failure needs", async () => {
  expect(failing.length).toBeGreaterThan(5)
  for (const seed of failing.slice(0, 12)) {
    const play = async (scenario: Scenario): Promise<Scenario | null> => (fails(scenario) ? scenario : null)
    const { failure: world } = (await shrink({ create: () => create(seed), play, maxTries: 2000 }))!
    const { runs, actions, engines, faults, workflows } = world
    expect([runs.length, actions.length, engines.length, faults.crashes.length, workflows.length]).toEqual([1, 1, 1, 0, 2])
    const [flow, child] = workflows.map(({ nodes }) => nodes.filter(({ node }) => node.group === null))
    // The fan-out, and the tasks that it reads.
    expect(flow!.length).toBeLessThan(5)
    expect(child!.length).toBe(1)
    expect(describeWorld(world).join("\n")).toContain("fan-out")
  }
})

test("a world that does not fail is not shrunk", async () => {
  expect(await shrink({ create: () => create(1), play: async () => null, maxTries: 10 })).toBeNull()
})
