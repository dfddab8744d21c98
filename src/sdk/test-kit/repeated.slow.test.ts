// A test in virtual time gives the same result each time.

import { expect, it } from "vitest"
import { task } from "../definitions.ts"
import { testOrk } from "../test.ts"

const RUNS = 1000

const shaky = task("shaky", { retry: { attempts: 5, delay: "1m", jitter: true } }, () => 0)

it("testOrk gives the same result a thousand times, with random delays and a crash", async () => {
  const results = new Set<string>()
  for (let i = 0; i < RUNS; i++) {
    await using ork = await testOrk({ run: [shaky], seed: 7 })
    const times: number[] = []
    ork.mock(shaky, (_, { attempt }) => {
      times.push(ork.now().getTime())
      if (attempt < 4) throw new Error("no")
      return attempt
    })
    const jobs = await ork.enqueueAll(shaky, [1, 2])
    await ork.advance("30s")
    await ork.crash()
    await ork.advance("1h")
    results.add(JSON.stringify([times, await Promise.all(jobs.map((job) => job.refresh()))]))
  }
  expect(results.size).toBe(1)
}, 300_000)
