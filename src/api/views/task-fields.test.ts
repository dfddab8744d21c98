import { expect, test } from "vitest"
import { setup } from "../testing/setup.ts"

test("a task whose printed text an expression reads as null has a warning", async () => {
  await using api = await setup()
  await api.deploy("tags", {
    version: { command: "echo 1.2.3; null" },
    silent: { command: "null" },
    unread: { command: "echo 1.2.3; null" },
    tag: { command: "echo ${{ tasks.version.output }} ${{ tasks.silent.output }}", depends_on: ["version", "silent"] },
  })
  const id = await api.runToEnd("tags")
  const warningOf = async (task: string) => (await api.call("GET", `/runs/${id}/tasks/${task}`)).body["warning"]
  expect(await warningOf("version")).toContain("printed text, which is null: set `output: text`")
  expect([await warningOf("silent"), await warningOf("unread")]).toEqual([null, null])
})

test("a single task shows the fields of its executor as in the definition, a list of tasks does not", async () => {
  await using api = await setup()
  await api.deploy("etl", {
    a: { command: 'echo ${{ params.who }} "and ${{ params.who }}"', timeout: 60 },
    b: { command: ["echo", "hi ${{ params.who }}", "2"], depends_on: ["a"] },
  }, { params: { who: { type: "string", default: "x" } } }) // prettier-ignore
  const id = await api.runToEnd("etl")
  const { body } = await api.call("GET", `/runs/${id}/tasks/a`)
  expect(body["work"]).toMatchObject({
    executor: "process",
    command: 'echo "${{ params.who }}" "and ${{ params.who }}"',
    timeout_ms: 60_000,
    deadline_ms: null,
    image: null,
  })
  const b = (await api.call("GET", `/runs/${id}/tasks/b`)).body["work"] as { command: string[] }
  expect(b.command).toEqual(["echo", "hi ${{ params.who }}", "2"])
  const list = (await api.call("GET", `/runs/${id}/tasks`)).body["items"] as object[]
  expect(list[0]).not.toHaveProperty("work")
})
