// What it takes until a result is there: a job is claimed with the commit that creates it, and its result comes with the commit that
// completes it.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished, vi } from "vitest"
import type { RunId } from "../core/model/ids.ts"
import type { ServerStore } from "../store/contract/server-store.ts"
import { type Definition, task, workflow } from "./definitions.ts"
import { graph } from "./graph/graph.ts"
import { openParts } from "./open.ts"
import { Ork } from "./ork.ts"

const open = async (...run: Definition[]): Promise<{ ork: Ork; store: ServerStore }> => {
  const folder = mkdtempSync(join(tmpdir(), "ork-sdk-"))
  const parts = await openParts({ database: `sqlite:${folder}/ork.db`, objects: `file:${folder}/objects`, run })
  const ork = await Ork.start(parts, run)
  onTestFinished(async () => {
    await ork.stop()
    rmSync(folder, { recursive: true, force: true })
  })
  return { ork, store: parts.store }
}

const point = task("point", {}, async () => ({ x: 1 }))
const order = workflow("order", {}, async (_, step) => ({ shipped: await step.run("ship", () => true) }))

const readsNothing = (store: ServerStore, ...reads: ("getJob" | "getRun" | "getTask")[]): void => {
  for (const read of reads) vi.spyOn(store, read).mockReturnValue(new Promise<never>(() => {}))
}

it("a job is claimed with the commit that creates it", async () => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const { ork } = await open(task("wait", {}, () => released))
  const work = await ork.enqueue(
    task("wait", {}, () => released),
    {},
  )
  expect((await work.refresh()).status).toBe("running")
  release()
  await work.result()
})

it("the result of a job comes with its commit: nothing is read", async () => {
  const { ork, store } = await open(point)
  readsNothing(store, "getJob")
  expect(await (await ork.enqueue(point, {})).result()).toEqual({ x: 1 })
})

it("a new job is not read when someone waits for it", async () => {
  const { ork, store } = await open(point)
  const getJob = vi.spyOn(store, "getJob")
  expect(await (await ork.enqueue(point, {})).result()).toEqual({ x: 1 })
  expect(getJob).not.toHaveBeenCalled()
})

it("the result of a durable function comes with its commit: nothing is read", async () => {
  const { ork, store } = await open(order)
  readsNothing(store, "getRun", "getTask")
  expect(await (await ork.enqueue(order, {})).result()).toEqual({ shipped: true })
})

it("the result of a graph comes with the commit of its last task: nothing is read", async () => {
  const chain = graph("chain", {}, (g) => {
    const first = g.task("first", point, {})
    return g.task("last", point, { after: first }).x
  })
  const { ork, store } = await open(point, chain)
  readsNothing(store, "getRun", "getTask")
  expect(await (await ork.enqueue(chain, {})).result()).toBe(1)
})

it("the result of a graph is read when it is not that of its last task", async () => {
  const other = task("other", {}, async () => 2)
  const early = graph("early", {}, (g) => {
    const first = g.task("first", point, {})
    g.task("last", other, { after: first })
    return first
  })
  const byName = graph("by-name", {}, (g) => void g.task("main", point, {}))
  const { ork } = await open(point, other, early, byName)
  expect(await (await ork.enqueue(early, {})).result()).toEqual({ x: 1 })
  expect(await (await ork.enqueue(byName, {})).result()).toEqual({ main: { x: 1 } })
})

it("each who waits for a result gets an object of its own", async () => {
  const { ork } = await open(point)
  const work = await ork.enqueue(point, {})
  const [one, other] = await Promise.all([work.result(), work.result()])
  expect(one).toEqual(other)
  expect(one).not.toBe(other)
})

it("the result of a step is inline up to 65,536 bytes, however many characters they are", async () => {
  const steps = workflow("steps", {}, async (_, step) => {
    await step.run("small", () => "x".repeat(65_534))
    await step.run("large", () => "ü".repeat(40_000))
  })
  const { ork, store } = await open(steps)
  const work = await ork.enqueue(steps, {})
  await work.result()
  const outputs = (await store.listSteps(work.id as RunId)).map(({ output }) => output)
  expect(outputs).toEqual([{ inline: "x".repeat(65_534) }, { key: expect.stringMatching(/large-0\.json$/), bytes: 80_002 }])
})
