// Invalid input: a clear message on standard error, exit code 2, and nothing stored.

import { existsSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { containing } from "../support/matchers.ts"
import { ork, temporaryFolder } from "../support/ork.ts"

const task = (fields: string): string => `name: w\ntasks:\n  a:\n    ${fields}\n`
const deep = (levels: number): string => `name: w\nx: ${"[".repeat(levels)}${"]".repeat(levels)}\n`
const aliases = (count: number): string => `name: w\nx: &x [1]\ny:\n${"  - *x\n".repeat(count)}`
const params = "name: w\nparams:\n  day: { type: date, required: true }\n  limit: 5\ntasks:\n  a: { command: 'true' }\n"

interface Row {
  what: string
  text?: string
  args?: string[]
  message: RegExp
}

const ROWS: Row[] = [
  { what: "a missing file", message: /^ork: flow\.yaml: there is no such file$/m },
  { what: "broken YAML", text: "name: [w\n", message: /^ork: flow\.yaml:\d+:\d+: the YAML cannot be parsed/m },
  {
    what: "two tasks with one name",
    text: "name: w\ntasks:\n  a: { command: x }\n  a: { command: y }\n",
    message: /^ork: flow\.yaml:4:3: tasks\.a: is defined twice; the first one is in line 3, column 3$/m,
  },
  {
    what: "a task without anything to run",
    text: task("timeout: 5s"),
    message: /^ork: flow\.yaml:3:3: tasks\.a: .*nothing to run/m,
  },
  {
    what: "a task that depends on itself",
    text: task("command: x\n    depends_on: [a]"),
    message: /tasks\.a\.depends_on.*itself/,
  },
  {
    what: "a cycle of three",
    text: "name: w\ntasks:\n  a: { command: x, depends_on: [c] }\n  b: { command: x, depends_on: [a] }\n  c: { command: x, depends_on: [b] }\n",
    message: /flow\.yaml:3:20: tasks\.a\.depends_on: the tasks form a cycle: a -> c -> b -> a/,
  },
  { what: "an unknown executor", text: task("executor: proces\n    command: x"), message: /executor.*did you mean "process"/ },
  { what: "an unknown field", text: task("command: x\n    depend_on: []"), message: /depend_on.*did you mean "depends_on"/ },
  { what: "a bad cron", text: `schedule: "61 * * * *"\n${task("command: x")}`, message: /schedule.*61/ },
  {
    what: "a bad duration",
    text: task("command: x\n    timeout: soon"),
    message: /flow\.yaml:5:14: tasks\.a\.timeout: must be a duration/,
  },
  {
    what: "a param of the wrong type",
    text: params,
    args: ["--param", "day=2026-01-01", "--param", "limit=many"],
    message: /^ork: params\.limit: must be a whole number, but is "many"$/m,
  },
  { what: "a missing required param", text: params, message: /^ork: params\.day: is required/m },
  {
    what: "an unknown param",
    text: params,
    args: ["--param", "day=2026-01-01", "--param", "limt=3"],
    message: /^ork: params\.limt: .*did you mean "limit"/m,
  },
  { what: "a param without a value", text: params, args: ["--param", "day"], message: /--param: "day" must be NAME=VALUE/ },
  { what: "YAML 10,000 levels deep", text: deep(10_000), message: /nested more than 64 levels deep/ },
  { what: "20,000 aliases", text: aliases(20_000), message: /more than 100 aliases/ },
  { what: "a name with a slash", text: "name: a/b\ntasks:\n  a: { command: x }\n", message: /flow\.yaml:1:7: name: / },
  { what: "a name with dots alone", text: "name: ..\ntasks:\n  a: { command: x }\n", message: /flow\.yaml:1:7: name: / },
  {
    what: "a task with a slash",
    text: "name: w\ntasks:\n  ../a: { command: x }\n",
    message: /flow\.yaml:3:3: tasks\.\.\.\/a: /,
  },
  { what: "a task named __proto__", text: "name: w\ntasks:\n  __proto__: { command: x }\n", message: /__proto__.*not allowed/ },
  { what: "a param named __proto__", text: params, args: ["--param", "__proto__=1"], message: /params\.__proto__/ },
  { what: "a bad number for an option", text: params, args: ["--concurrency", "0"], message: /--concurrency: "0" is not/ },
  {
    what: "an unknown option",
    text: params,
    args: ["--concurency", "3"],
    message: /unknown option.*Did you mean --concurrency/,
  },
  { what: "a run to resume where there is none", args: ["--resume", "latest"], message: /there are no runs in/ },
]

test.each(ROWS)(
  "$what is reported on standard error with exit code 2, and nothing is stored",
  async ({ text, args = [], message }) => {
    const cwd = temporaryFolder()
    if (text !== undefined) writeFileSync(join(cwd, "flow.yaml"), text)
    const result = await ork(["run", "flow.yaml", ...args], { cwd })
    expect(result.stderr).toMatch(message)
    expect(result.stderr).not.toMatch(/^\s+at /m)
    expect([result.code, result.stdout]).toEqual([2, ""])
    expect(existsSync(join(cwd, ".ork"))).toBe(false)
  },
)

test("all problems of a definition are reported together, one line each with its position", async () => {
  const cwd = temporaryFolder()
  const text = "name: w\nconcurency: 3\ntasks:\n  a: { command: x, timeout: soon }\n  b: { command: y, depends_on: [aa] }\n"
  writeFileSync(join(cwd, "flow.yaml"), text)
  const { stderr } = await ork(["run", "flow.yaml"], { cwd })
  const lines = stderr.trimEnd().split("\n")
  expect(lines.map((line) => /^ork: flow\.yaml:(\d+):\d+: ([\w.]+): /.exec(line)?.slice(1))).toEqual([
    ["2", "concurency"],
    ["4", "tasks.a.timeout"],
    ["5", "tasks.b.depends_on.0"],
  ])
})

test("an unknown command gets a suggestion, and no command the help", async () => {
  const cwd = temporaryFolder()
  expect(await ork(["rum"], { cwd })).toEqual({ code: 2, stdout: "", stderr: containing("Did you mean run?") })
  expect(await ork([], { cwd })).toEqual({ code: 2, stdout: "", stderr: containing("Usage: ork") })
})

test("invalid settings are reported with their position", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), task("command: x"))
  writeFileSync(join(cwd, "ork.yaml"), "concurency: 3\n")
  const result = await ork(["run", "flow.yaml"], { cwd, env: { ORK_DATABASE_URL: "mysql://x" } })
  expect(result.code).toBe(2)
  expect(result.stderr).toContain("ork: ork.yaml: unknown setting concurency; did you mean concurrency?")
  expect(result.stderr).toContain("ork: ORK_DATABASE_URL: ")
})

test("a folder in place of a file is reported", async () => {
  const cwd = temporaryFolder()
  mkdirSync(join(cwd, "flow.yaml"))
  const { code, stderr } = await ork(["run", "flow.yaml"], { cwd })
  expect([code, stderr]).toEqual([2, "ork: flow.yaml: is a folder; name the workflow file in it\n"])
})
