import { expect, it, onTestFinished } from "vitest"
import { ADMIN_KEY, setup } from "../api/testing/setup.ts"
import { OrkClient } from "./client.ts"
import { compileGraph } from "./graph/compile-graph.ts"
import { graph } from "./graph/graph.ts"

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
