// `interpreter` with the built command: the same in `ork run`, on a server and on a worker.

import { execFileSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { ork, orkRun, temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"
import { startWorker } from "../support/worker.ts"

const definition = (interpreter: string): string => `
name: where
defaults: { interpreter: ${interpreter} }
tasks:
  call: { executor: python, file: where.py }
  script: { shell: python, command: "import json, sys; print(json.dumps([sys.prefix]))" }
  command: { command: [python3, where.py] }
  page: { executor: sleep, duration: 0 }
`
const SOURCE = `
import json, sys
def main():
    print(json.dumps([sys.prefix]))
    return [sys.prefix]
if __name__ == "__main__": main()
`

const folderWith = (interpreter: string): string => {
  const folder = temporaryFolder()
  writeFileSync(join(folder, "where.yaml"), definition(interpreter))
  writeFileSync(join(folder, "where.py"), SOURCE)
  return folder
}

const TASKS = ["call", "script", "command"]

it("ork run finds a virtualenv beside the definition, and says what to do without it", async () => {
  const cwd = folderWith(".venv")
  const missing = await ork(["run", "where.yaml"], { cwd })
  expect(missing.code).toBe(1)
  expect(missing.stdout + missing.stderr).toContain(`there is no Python at ${join(cwd, ".venv")} (interpreter: .venv)`)
  execFileSync("python3", ["-m", "venv", "--without-pip", join(cwd, ".venv")])
  const { run } = await orkRun(["where.yaml"], { cwd })
  expect(run.status).toBe("success")
  for (const task of TASKS) {
    const { stdout } = await ork(["logs", run.id, task], { cwd })
    expect([task, stdout]).toEqual([task, expect.stringContaining(JSON.stringify([join(cwd, ".venv")]))])
  }
})

it("a server and a worker use the virtualenv of their machine, and deploying a relative one is a warning", async () => {
  const virtualenv = join(temporaryFolder(), "env")
  execFileSync("python3", ["-m", "venv", "--without-pip", virtualenv])
  const server = await startServer(["--no-worker"], { cwd: temporaryFolder() })
  await startWorker(server, { name: "one" })
  const env = { ORK_URL: server.url, ORK_API_KEY: server.key }
  const relative = await ork(["deploy", "where.yaml"], { cwd: folderWith(".venv"), env })
  expect(relative).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("the interpreter .venv will not be there on a server"),
  })
  const { code, stderr } = await ork(["deploy", "where.yaml"], { cwd: folderWith(virtualenv), env })
  expect([code, stderr]).toEqual([0, ""])
  const run = await server.trigger("where")
  expect(await server.reaches(run, "success", "failed")).toMatchObject({ status: "success" })
  for (const task of TASKS) {
    expect((await server.call("GET", `/runs/${run}/tasks/${task}`)).body["output"]).toEqual([virtualenv])
  }
})
