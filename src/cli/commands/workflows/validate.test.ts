import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { expect, test } from "vitest"
import { commandLine } from "../../testing/command-line.ts"
import { containing, having, matching } from "../../../../test/support/matchers.ts"

test("validate checks every definition of a folder, and leaves ork.yaml alone", async () => {
  await using world = await commandLine()
  await mkdir(join(world.cwd, "flows"))
  await world.file("flows/ork.yaml", "port: 4001\n")
  await world.file("flows/one.yaml", "name: one\ntasks:\n  a: { command: x }\n")
  await world.file("flows/two.yaml", "name: two\ntasks:\n  a: { comand: x }\n")
  const { code, stdout, stderr } = await world.ork("validate", "flows")
  expect([code, stdout]).toEqual([2, "flows/one.yaml: one is valid, 1 task\n"])
  expect(stderr).toMatch(/^ork: flows\/two\.yaml:3:8: /)
})

test("validate checks the files that tasks name", async () => {
  await using world = await commandLine()
  await world.file("etl.yaml", "name: etl\ntasks:\n  a: { executor: node, file: tasks/load.ts, function: load }\n")
  expect(await world.ork("validate", "etl.yaml")).toEqual({
    code: 2,
    stdout: "",
    stderr: "ork: etl.yaml:3:30: tasks.a.file: there is no file tasks/load.ts beside the definition\n",
  })
})

test("validate checks the workflows that tasks start: their params, and with a warning that they exist", async () => {
  await using world = await commandLine()
  await world.file(
    "child.yaml",
    "name: child\nparams: { day: { type: string, required: true } }\ntasks:\n  a: { command: x }\n",
  )
  const parent = (name: string, input: string) =>
    world.file("parent.yaml", `name: parent\ntasks:\n  a: { executor: workflow, workflow: ${name}, input: ${input} }\n`)
  await parent("child", "{ day: monday }")
  expect(await world.ork("validate", "parent.yaml")).toMatchObject({ code: 0, stderr: "" })
  await parent("child", "{ dya: monday }")
  const bad = await world.ork("validate", "parent.yaml")
  expect([bad.code, bad.stderr]).toEqual([
    2,
    'ork: parent.yaml:3:54: tasks.a.input.dya: the workflow child has no param dya (did you mean "day"?)\n' +
      "ork: parent.yaml:3:45: tasks.a.input: the workflow child requires the param day\n",
  ])
  await parent("chlid", "{}")
  const warned = await world.ork("validate", "parent.yaml", "--json")
  expect([warned.code, JSON.parse(warned.stdout)]).toEqual([
    0,
    [having({ valid: true, warnings: [having({ path: "tasks.a.workflow", line: 3, column: 38, suggestion: "child" })] })],
  ])
})

test("problems of workflows that tasks start have the line and column of the task, also in groups and in lists of tasks", async () => {
  await using world = await commandLine()
  await world.file("child.yaml", "name: child\ntasks:\n  a: { command: x }\n")
  const started = "executor: workflow, workflow: child, input: { x: 1 }"
  await world.file("group.yaml", `name: group\ntasks:\n  g:\n    tasks:\n      a: { ${started} }\n`)
  await world.file("list.yaml", `id: list\ntasks:\n  - { id: a, ${started} }\n`)
  const { stderr } = await world.ork("validate", "group.yaml", "list.yaml")
  expect(stderr.split("\n")).toEqual([
    "ork: group.yaml:5:58: tasks.g.tasks.a.input.x: the workflow child has no param x",
    "ork: list.yaml:3:60: tasks.0.input.x: the workflow child has no param x",
    "",
  ])
})

test.each([
  ["${{ secrets.TOKEN }}", /"secrets" is not a variable; give the task the secret as an environment variable/],
  ["${{ size(params.x.lenght()) }}", /there is no function lenght/],
  ["${{ siez([1]) }}", /there is no function siez; did you mean size\?/],
])("a command with %s is invalid, with a hint", async (expression, message) => {
  await using world = await commandLine()
  await world.file("w.yaml", `name: w\nparams: { x: a }\ntasks:\n  a: { command: 'echo ${expression}' }\n`)
  const { code, stderr } = await world.ork("validate", "w.yaml")
  expect([code, stderr]).toEqual([2, matching(message)])
})

test("templates of other tools are warnings with line and column; Go templates and comments are not", async () => {
  await using world = await commandLine()
  const lines = [
    "name: w",
    "tasks:",
    "  # {{ ds }}",
    "  a:",
    "    command: |",
    "      load {{ ds }}",
    "      docker ps --format '{{.ID}}'",
  ]
  await world.file("w.yaml", `${lines.join("\n")}\n`)
  expect(await world.ork("validate", "w.yaml")).toEqual({
    code: 0,
    stdout: "w.yaml: w is valid, 1 task\n",
    stderr: "ork: warning: w.yaml:6:12: {{ ds }} is plain text here: expressions are written as ${{ … }}\n",
  })
})

test.each(["foreach: {{ params.x }}", "command: [echo, ${{ params.x }}]"])(
  "unquoted braces in `%s` get a hint",
  async (field) => {
    await using world = await commandLine()
    await world.file(
      "w.yaml",
      `name: w\nparams: { x: a }\ntasks:\n  a:\n    command: x\n    ${field}\n`.replace(
        "    command: x\n    command",
        "    command",
      ),
    )
    const { code, stderr } = await world.ork("validate", "w.yaml")
    expect([code, stderr]).toEqual([2, containing('put a value that contains it in quotes, such as "${{ item }}"')])
  },
)
