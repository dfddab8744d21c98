import { join } from "node:path"
import { expect, it, onTestFinished, vi } from "vitest"
import { ADMIN_KEY, setup } from "../api/testing/setup.ts"
import { inlineEvaluator } from "../engine/gate/evaluator.ts"
import { systemClock, systemRandom } from "../engine/system.ts"
import { openSqlite } from "../store/sqlite/sqlite.ts"
import { OrkClient } from "./client.ts"
import { type Definition, workflow } from "./definitions.ts"
import { CancelledError, ConflictError } from "./errors.ts"
import { compileGraph } from "./graph/compile-graph.ts"
import { graph } from "./graph/graph.ts"
import { Ork } from "./ork.ts"

/** Opens a server, a client of it, and a program that runs definitions on the same database. */
const openBoth = async (run: readonly Definition[]) => {
  const api = await setup()
  const { folder, objects } = api
  const store = await openSqlite({ path: join(folder, "ork.db"), clock: systemClock, random: systemRandom })
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  const parts = { store, objects, log, evaluator: inlineEvaluator, clock: systemClock, random: systemRandom }
  const process = { process: "program", name: "program", holder: "run", concurrency: 10, version: "test" } as const
  const program = await Ork.start({ ...parts, ...process }, run)
  onTestFinished(async () => {
    await program.stop()
    await api[Symbol.asyncDispose]()
  })
  const url = await api.server.app.listen({ host: "127.0.0.1", port: 0 })
  return { api, client: new OrkClient({ url, key: ADMIN_KEY }) }
}

const numbers = graph("numbers", {}, (g) => {
  const all = g.eachGroup("all", [1, 2], (inner) => inner.define("one", { command: "echo" }))
  g.define("last", { command: "echo" }, { after: [all] })
  return all
})

it("starts runs of graphs, and returns what the graph returns or the outputs of its tasks", async () => {
  const api = await setup()
  onTestFinished(() => api[Symbol.asyncDispose]())
  const url = await api.server.app.listen({ host: "127.0.0.1", port: 0 })
  const client = new OrkClient({ url, key: ADMIN_KEY })
  const { source } = compileGraph(numbers)
  const deployed = await fetch(`${url}/api/v1/workflows`, {
    method: "POST",
    headers: { authorization: `Bearer ${ADMIN_KEY}`, "content-type": "application/yaml" },
    body: source,
  })
  expect(deployed.status).toBe(201)
  const run = await client.enqueue(numbers, {}, { key: "once" })
  expect(await run.result()).toEqual([{ task: "all.one" }, { task: "all.one" }])
  expect(await client.enqueue(numbers, {}, { key: "once" })).toMatchObject({ id: run.id, created: false })
  const found = await client.get(run.id)
  expect(await found?.result()).toMatchObject({ all: [{ one: { task: "all.one" } }, {}], last: { task: "last" } })
  expect((await Array.fromAsync(client.list({ def: numbers }))).map(({ id }) => id)).toEqual([run.id])
})

it("answers approvals of durable functions, and cancels the functions", async () => {
  const cleaned: string[] = []
  const flow = workflow("flow", {}, async (_, step) => {
    const { approved, by, comment } = await step.approval("ship it", { message: "Ship order 7?", timeout: "1d" })
    try {
      await step.sleep("long", approved ? "30d" : "1ms")
    } finally {
      await step.run("clean up", () => void cleaned.push(`${by} ${comment}`))
    }
    return approved
  })
  const { api, client } = await openBoth([flow])
  const [shipped, refused] = [await client.enqueue(flow, {}), await client.enqueue(flow, {})]
  const waiting = (name: string) => async () =>
    expect((await api.call("GET", `/runs/${shipped.id}/steps`)).body["items"]).toMatchObject([
      ...(name === "long" ? [{ state: "success" }] : []),
      { name, state: "waiting" },
    ])
  await vi.waitFor(waiting("ship it"))
  expect((await api.call("GET", `/runs/${shipped.id}/steps`)).body["items"]).toMatchObject([
    { kind: "approval", message: "Ship order 7?", default: "reject", until: expect.any(String) as string },
  ])
  await vi.waitFor(async () => await client.reject(refused, "ship it", { comment: "no" }))
  expect(await refused.result()).toBe(false)
  await client.approve(shipped, "ship it", { path: "0" })
  await expect(client.approve(shipped, "ship it")).rejects.toThrow(ConflictError)
  await vi.waitFor(waiting("long"))
  await shipped.cancel()
  await expect(shipped.result()).rejects.toThrow(CancelledError)
  expect(cleaned).toEqual(["admin no", "admin null"])
  const reserved = await api.call("POST", `/runs/${shipped.id}/signals/ork:cancel`)
  expect(reserved).toMatchObject({ status: 400 })
})
