// Functions of tasks that run in containers and clusters.

import { expect, test } from "vitest"
import { parseValue } from "./parse.ts"

const compile = (task: object) => parseValue({ name: "w", tasks: { a: task } })

test.each([
  { executor: "docker", image: "x" },
  { executor: "kubernetes", image: "x" },
  { executor: "slurm" },
  { executor: "cloudrun", job: "x" },
])("$executor runs a function of a file", (task) => {
  const compiled = compile({ ...task, file: "tasks/load.py", function: "load", input: { n: 1 } })
  expect(compiled).toMatchObject({ ok: true, workflow: { nodes: [{ file: "tasks/load.py", function: "load" }] } })
})

test.each([
  [{ executor: "docker", image: "x", file: "a.py", command: "x" }, /has both a command and a file/],
  [{ executor: "kubernetes", image: "x", function: "f" }, /has a function without the file/],
  [{ executor: "slurm" }, /the executor "slurm" needs command, or file/],
  [{ executor: "cloudrun", job: "x", file: "a.sh" }, /must be a file with functions/],
])("%j is rejected", (task, message) => {
  const compiled = compile(task)
  expect(compiled.ok ? "" : compiled.problems.map((problem) => problem.message).join()).toMatch(message)
})
