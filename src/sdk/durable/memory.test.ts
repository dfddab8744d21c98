// An activation that has ended keeps nothing alive, although the code of its function stays at an `await` that never resolves.

import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { expect, it } from "vitest"
import { workflow } from "../definitions.ts"
import { testOrk } from "../test.ts"

setFlagsFromString("--expose-gc")
const collectGarbage = runInNewContext("gc") as () => void

it("a function that leaves a branch behind leaves no memory behind", async () => {
  const left: WeakRef<object>[] = []
  const flow = workflow("flow", {}, async (_, step) => {
    const local = { in: "the frame of the branch" }
    left.push(new WeakRef(local))
    const branch = async (): Promise<unknown> => {
      await step.run("first of the branch", () => null)
      await step.run("second of the branch", () => null)
      return local
    }
    void branch()
    return await step.run("all", () => null)
  })
  await using ork = await testOrk({ run: [flow] })
  const runs = []
  for (let i = 0; i < 20; i++) runs.push(await ork.enqueue(flow, {}))
  await ork.advance("1m")
  for (const run of runs) expect((await run.refresh()).status).toBe("success")
  collectGarbage()
  await new Promise(setImmediate)
  collectGarbage()
  expect(left.length).toBe(20)
  expect(left.filter((each) => each.deref() !== undefined).length).toBeLessThan(5)
})
