import { expect, test } from "vitest"
import { commandLine } from "../../testing/command-line.ts"

const ETL = `
name: etl
params:
  n: { type: integer, default: 1 }
  tags: { type: array, required: false }
tasks:
  a: { command: echo hello }
  b: { depends_on: [a], command: echo done }
`

test("deploy reports new, updated and unchanged workflows", async () => {
  await using world = await commandLine()
  await world.file("etl.yaml", ETL)
  await world.file("two.json", JSON.stringify({ name: "two", tasks: { a: { command: "true" } } }))
  expect(await world.ork("deploy", "etl.yaml", "two.json")).toEqual({
    code: 0,
    stdout: "etl.yaml: etl is deployed, version 1\ntwo.json: two is deployed, version 1\n",
    stderr: "",
  })
  await world.file("etl.yaml", `${ETL}  c: { command: "true" }\n`)
  expect((await world.ork("deploy", "etl.yaml", "two.json")).stdout).toBe(
    "etl.yaml: etl is updated, version 2\ntwo.json: two is unchanged, version 1\n",
  )
  expect(await world.json("deploy", "etl.yaml")).toMatchObject([{ name: "etl", version: 2 }])
})

test("deploy lists the problems of every file with their positions, and deploys none", async () => {
  await using world = await commandLine()
  await world.file("good.yaml", ETL)
  await world.file("bad.yaml", "name: w\ntasks:\n  a: { comand: x }\n  b: { command: y, depends_on: [c] }\n")
  await world.file("code.yaml", "name: c\ntasks:\n  a: { executor: node, file: a.ts, function: f }\n")
  const { code, stdout, stderr } = await world.ork("deploy", "good.yaml", "bad.yaml", "code.yaml")
  expect([code, stdout]).toEqual([2, ""])
  expect(stderr).toMatch(/^ork: bad\.yaml:3:8: tasks\.a\.comand: .*did you mean "command"/m)
  expect(stderr).toMatch(/^ork: bad\.yaml:4:\d+: tasks\.b\.depends_on/m)
  expect(stderr).toMatch(/^ork: code\.yaml:3:30: tasks\.a\.file: there is no file a\.ts beside the definition/m)
  expect(await world.json("runs")).toEqual([])
  expect((await world.api.call("GET", "/workflows")).body["items"]).toEqual([])
})

test("deploy of a missing file is rejected", async () => {
  await using world = await commandLine()
  expect(await world.ork("deploy", "none.yaml")).toEqual({
    code: 2,
    stdout: "",
    stderr: "ork: none.yaml: there is no such file\n",
  })
})
