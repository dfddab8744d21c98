// `requirements` with the built command: built once by processes that race, and the same on a worker.

import { globSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { beforeAll, expect, it } from "vitest"
import { ork, orkRun, temporaryFolder } from "../support/ork.ts"
import { installVenv } from "../support/components/packages.ts"
import { startServer } from "../support/server.ts"
import { buildWheel } from "../support/wheel.ts"
import { startWorker } from "../support/worker.ts"

const DEFINITION = `
name: greet
include: [wheels/*]
defaults: { requirements: requirements.txt }
tasks:
  call: { executor: python, file: greet.py }
  command: { command: [python3, greet.py] }
`
const SOURCE = `
import greeting
def main(): print(greeting.text("Ada"))
if __name__ == "__main__": main()
`

const project = (): string => {
  const folder = temporaryFolder()
  writeFileSync(join(folder, "greet.yaml"), DEFINITION)
  writeFileSync(join(folder, "greet.py"), SOURCE)
  writeFileSync(join(folder, "requirements.txt"), "--no-index\n--find-links wheels\ngreeting==1.2\n")
  mkdirSync(join(folder, "wheels"))
  buildWheel(join(folder, "wheels"), { name: "greeting", version: "1.2", source: 'def text(name): return "Hello " + name\n' })
  return folder
}

beforeAll(() => installVenv(), 120_000)

it("runs that start at the same time build one virtualenv", { timeout: 180_000 }, async () => {
  const cwd = project()
  const runs = await Promise.all([1, 2, 3].map(() => orkRun(["greet.yaml"], { cwd })))
  expect(runs.map(({ run }) => run.status)).toEqual(["success", "success", "success"])
  expect(globSync(".ork/python/virtualenvs/*", { cwd }).length).toBe(1)
  expect((await ork(["logs", runs[0]!.run.id, "command"], { cwd })).stdout).toContain("Hello Ada")
})

it("a worker builds it from the files of the workflow, and reuses it for the next run", { timeout: 180_000 }, async () => {
  const server = await startServer(["--no-worker"], { cwd: temporaryFolder() })
  const cwd = temporaryFolder()
  await startWorker(server, { name: "one", cwd })
  const env = { ORK_URL: server.url, ORK_API_KEY: server.key }
  expect((await ork(["deploy", "greet.yaml"], { cwd: project(), env })).code).toBe(0)
  for (const _ of [1, 2]) {
    const run = await server.trigger("greet")
    expect(await server.reaches(run, "success", "failed")).toMatchObject({ status: "success" })
  }
  expect(globSync(".ork/**/virtualenvs/*", { cwd }).length).toBe(1)
})
