// A case gives the same result each time.

import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { readCases } from "./read-cases.ts"
import { runCase } from "./run-case.ts"

const RUNS = 1000

const WORKFLOW = `
name: shaky
tasks:
  a: { command: x, retry: { max_attempts: 4, jitter: true } }
  b: { command: x, foreach: [1, 2] }
`

it("a case of ork test gives the same result a thousand times", async () => {
  const folder = await mkdtemp(join(tmpdir(), "ork-cases-"))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, "shaky.yaml"), WORKFLOW)
  await writeFile(join(folder, "shaky.ork-test.yaml"), "cases: { x: { mocks: { a: { error: no } }, expect: {} } }\n")
  const file = await readCases(folder, "shaky.ork-test.yaml")
  const results = new Set<string>()
  for (let i = 0; i < RUNS; i++) {
    const { tasks, ...result } = await runCase(file, file.cases[0]!)
    results.add(JSON.stringify({ ...result, tasks: [...tasks] }))
  }
  expect(results.size).toBe(1)
}, 300_000)
