// Python tasks with the built command: `interpreter` and `env_file` mean the same in `ork run` and on a worker, and the package `ork`
// works.

import { execFile, execFileSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it } from "vitest"
import { ork, orkRun, REPO, temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"
import { startWorker } from "../support/worker.ts"

const definition = (interpreter: string): string => `
name: where
env: { LEVEL: workflow }
defaults: { interpreter: ${interpreter}, env_file: shared.env }
tasks:
  call: { executor: python, file: where.py }
  script: { shell: python, command: "import where; where.main()", env: { COLOUR: task } }
  command: { command: [python3, -c, "import where; where.main()"], env_file: own.env }
  page: { executor: sleep, duration: 0 }
`
const SOURCE = `
import json, os, sys
def main():
    found = [sys.prefix, *(os.environ.get(name) for name in ("HOST", "LEVEL", "COLOUR"))]
    print(json.dumps(found))
    return found
`

const project = (interpreter: string): string => {
  const folder = temporaryFolder()
  const put = (name: string, text: string): void => writeFileSync(join(folder, name), text)
  put("where.yaml", definition(interpreter))
  put("where.py", SOURCE)
  put("shared.env", "HOST=db\nLEVEL=file\nCOLOUR=file\n")
  put("own.env", "HOST=own\n")
  return folder
}

/** Returns the values that each task finds; `env` wins over `env_file`. */
const found = (virtualenv: string): [task: string, output: unknown[]][] => [
  ["call", [virtualenv, "db", "workflow", "file"]],
  ["script", [virtualenv, "db", "workflow", "task"]],
  ["command", [virtualenv, "own", "workflow", null]],
]

const createVirtualenv = (folder: string): void => void execFileSync("python3", ["-m", "venv", "--without-pip", folder])

it("ork run finds the virtualenv and the variables beside the definition, and says what to do without it", async () => {
  const cwd = project(".venv")
  const missing = await ork(["run", "where.yaml"], { cwd })
  expect(missing.code).toBe(1)
  expect(missing.stdout + missing.stderr).toContain(`there is no Python at ${join(cwd, ".venv")} (interpreter: .venv)`)
  createVirtualenv(join(cwd, ".venv"))
  const { run } = await orkRun(["where.yaml"], { cwd })
  expect(run.status).toBe("success")
  for (const [task, output] of found(join(cwd, ".venv"))) {
    const { stdout } = await ork(["logs", run.id, task], { cwd })
    const [line] = stdout.split("\n").filter((text) => text.includes("["))
    expect([task, JSON.parse(line!.slice(line!.indexOf("[")))]).toEqual([task, output])
  }
})

it("a worker does the same, and the client of the Python package can use the server", { timeout: 60_000 }, async () => {
  const virtualenv = join(temporaryFolder(), "env")
  createVirtualenv(virtualenv)
  const server = await startServer(["--no-worker"], { cwd: temporaryFolder() })
  await startWorker(server, { name: "one" })
  const env = { ORK_URL: server.url, ORK_API_KEY: server.key }
  const relative = await ork(["deploy", "where.yaml"], { cwd: project(".venv"), env })
  const warning = "the interpreter .venv will not be there on a server"
  expect(relative).toMatchObject({ code: 0, stderr: expect.stringContaining(warning) })
  const { code, stderr } = await ork(["deploy", "where.yaml"], { cwd: project(virtualenv), env })
  expect([code, stderr]).toEqual([0, ""])
  const run = await server.trigger("where")
  expect(await server.reaches(run, "success", "failed")).toMatchObject({ status: "success" })
  for (const [task, output] of found(virtualenv)) {
    expect((await server.call("GET", `/runs/${run}/tasks/${task}`)).body["output"]).toEqual(output)
  }
  const variables = { ...env, PATH: process.env["PATH"], PYTHONPATH: join(REPO, "python/lib"), PYTHONDONTWRITEBYTECODE: "1" }
  const args = ["-m", "unittest", "discover", "-s", "python/tests"]
  const tests = await promisify(execFile)("python3", args, { cwd: REPO, env: variables })
  expect(tests.stderr).toMatch(/Ran \d\d tests in .*\n\nOK\n$/)
})

it("the Python package has the version of Ork", () => {
  const { version } = JSON.parse(readFileSync(join(REPO, "package.json"), "utf8")) as { version: string }
  expect(readFileSync(join(REPO, "python/pyproject.toml"), "utf8")).toContain(`version = "${version}"`)
})
