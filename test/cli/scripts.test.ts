// How text commands run: they stop at the first failing line, and `shell` or their first line selects the interpreter.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { ork, type OrkResult, temporaryFolder } from "../support/ork.ts"

const run = (tasks: string): Promise<OrkResult> => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), `name: flow\n${tasks}`)
  return ork(["run", "flow.yaml"], { cwd })
}

test("a script of several lines fails at its first failing line", async () => {
  const { code, stdout } = await run(`tasks:
  load:
    command: |
      echo before
      cp missing.csv target.csv
      echo after
`)
  expect(code).toBe(1)
  expect(stdout).toContain("before")
  expect(stdout).not.toContain("after")
})

test("each task of a workflow may have its own interpreter", async () => {
  const { code } = await run(`defaults: { shell: bash }
tasks:
  bash:
    command: |
      names=(a b)
      [[ \${#names[@]} == 2 ]]
  python:
    shell: python
    command: |
      import json, os
      json.dump({"answer": 42}, open(os.environ["ORK_OUTPUT"], "w"))
  first_line:
    depends_on: [python]
    env: { ANSWER: "\${{ tasks.python.output.answer }}" }
    command: |
      #!/usr/bin/env python3
      import os
      assert os.environ["ANSWER"] == "42"
  list:
    shell: [python3, -c]
    command: import json
`)
  expect(code).toBe(0)
})

test("a failing part of a pipe fails a bash script", async () => {
  expect((await run("tasks: { pipe: { shell: bash, command: 'false | cat; true' } }")).code).toBe(1)
  expect((await run("tasks: { pipe: { command: 'false | cat; true' } }")).code).toBe(0)
})

test("a warning names the task whose printed text an expression reads as null", async () => {
  const reader = "tag: { depends_on: [version], command: 'echo v${{ tasks.version.output }}' }"
  const silent = await run(`tasks: { version: { command: echo 1.2.3, output: text }, ${reader} }`)
  expect(silent).toMatchObject({ code: 0, stderr: "" })
  const { code, stdout, stderr } = await run(`tasks: { version: { command: echo 1.2.3 }, ${reader} }`)
  expect(code).toBe(0)
  expect(stdout + stderr).toContain("an expression reads the output of a task that printed text, which is null")
  expect(stdout + stderr).toContain('"task":"version"')
  const nothing = await run(`tasks: { version: { command: "true" }, ${reader} }`)
  expect(nothing.stdout + nothing.stderr).not.toContain("which is null")
})
