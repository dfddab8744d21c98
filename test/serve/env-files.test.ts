// `env_file` with the built command: the same in `ork run`, on a server and on a worker.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { ork, temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"
import { startWorker } from "../support/worker.ts"

const DEFINITION = `
name: variables
env: { LEVEL: workflow }
defaults: { env_file: shared.env }
tasks:
  shared: { command: 'printf "[\\"%s\\", \\"%s\\", \\"%s\\"]" "$HOST" "$LEVEL" "$COLOUR" > "$ORK_OUTPUT"', env: { COLOUR: task } }
  own: { executor: python, file: own.py, env_file: own.env }
`

const project = (): string => {
  const folder = temporaryFolder()
  const files = {
    "variables.yaml": DEFINITION,
    "shared.env": "HOST=db\nLEVEL=file\nCOLOUR=file\n",
    "own.env": "HOST=own\n",
    "own.py": "import os\ndef main(): return [os.environ['HOST'], os.environ['LEVEL']]\n",
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}

it("variables of the file reach tasks on a worker, and env wins over them", async () => {
  const server = await startServer(["--no-worker"], { cwd: temporaryFolder() })
  await startWorker(server, { name: "one" })
  const env = { ORK_URL: server.url, ORK_API_KEY: server.key }
  expect((await ork(["deploy", "variables.yaml"], { cwd: project(), env })).code).toBe(0)
  const run = await server.trigger("variables")
  expect(await server.reaches(run, "success", "failed")).toMatchObject({ status: "success" })
  const outputOf = async (task: string): Promise<unknown> =>
    (await server.call("GET", `/runs/${run}/tasks/${task}`)).body["output"]
  expect(await outputOf("shared")).toEqual(["db", "workflow", "task"])
  expect(await outputOf("own")).toEqual(["own", "workflow"])
})

it("ork run reads the file beside the definition, and a missing one fails the task without a retry", async () => {
  const cwd = temporaryFolder()
  const task = `x: { env_file: .env, retries: 3, command: 'test "$HOST" = db' }`
  writeFileSync(join(cwd, "flow.yaml"), `name: flow\ntasks: { ${task} }\n`)
  const missing = await ork(["run", "flow.yaml"], { cwd })
  expect(missing.code).not.toBe(0)
  expect(missing.stdout + missing.stderr).toContain("env_file: the file .env is not beside the definition")
  expect((await ork(["validate", "flow.yaml"], { cwd })).stderr).toContain("there is no file .env beside the definition")
  writeFileSync(join(cwd, ".env"), "HOST=db\n")
  expect((await ork(["run", "flow.yaml"], { cwd })).code).toBe(0)
})
