import { expect, test } from "vitest"
import { setup } from "../testing/setup.ts"

interface Listed {
  name: string
  path: string
  command: unknown
  input: unknown
}

test("a task has its command and input, alone and in lists", async () => {
  await using api = await setup()
  await api.deploy("etl", {
    a: { command: "echo ${{ run.workflow }}", input: { limit: "${{ 1 + 1 }}" } },
    each: { foreach: ["x", "y"], depends_on: ["a"], command: ["load", "${{ item }}"] },
    last: { depends_on: ["each"], executor: "sleep", duration: "1ms" },
  })
  const id = await api.runToEnd("etl")
  const items = (await api.call("GET", `/runs/${id}/tasks`)).body["items"] as Listed[]
  const found = Object.fromEntries(items.map(({ name, path, command, input }) => [`${name}${path}`, { command, input }]))
  expect(found).toEqual({
    a: { command: 'echo "${{ run.workflow }}"', input: { limit: 2 } },
    each0: { command: ["load", "${{ item }}"], input: { item: "x", a: { task: "a" } } },
    each1: { command: ["load", "${{ item }}"], input: { item: "y", a: { task: "a" } } },
    last: { command: null, input: { each: [{ task: "each" }, { task: "each" }] } },
  })
  const one = (await api.call("GET", `/runs/${id}/tasks/each?index=1`)).body as unknown as Listed
  expect({ command: one.command, input: one.input }).toEqual(found["each1"])
})

test("a task that has not started has a command and no input; large values are left out of lists", async () => {
  await using api = await setup()
  await api.deploy("etl", {
    a: { command: "fail", input: { text: ["x".repeat(20_000)] } },
    b: { command: "true", depends_on: ["a"] },
  })
  const id = await api.runToEnd("etl")
  const items = (await api.call("GET", `/runs/${id}/tasks`)).body["items"] as Listed[]
  expect(items).toMatchObject([
    { name: "a", command: "fail", input: { text: { omitted_bytes: 20_004 } } },
    { name: "b", command: "true", input: null },
  ])
  const { body } = await api.call("GET", `/runs/${id}/tasks/a`)
  expect(body["input"]).toEqual({ text: ["x".repeat(20_000)] })
})
