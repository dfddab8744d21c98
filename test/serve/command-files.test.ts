// Scripts beside a definition: commands find them on a server and on a worker as they do with `ork run`.

import { chmodSync, mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { describe, expect, test } from "vitest"
import { ork, temporaryFolder } from "../support/ork.ts"
import { probe, type Server, startServer } from "../support/server.ts"
import { startWorker } from "../support/worker.ts"

const put = (folder: string, path: string, text: string): void => {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
  if (text.startsWith("#!")) chmodSync(join(folder, path), 0o755)
}

const setup = (): string => {
  const cwd = temporaryFolder()
  put(
    cwd,
    "flow.yaml",
    `name: flow
include: [lib/*.sh]
tasks:
  script: { command: ./scripts/x.sh in.txt, output: text }
  python: { command: [python3, load.py], output: text }
  inside: { working_dir: sub, command: ./y.sh, output: text }
  on_path: { script_dir: bin, command: greet, output: text }
`,
  )
  put(cwd, "scripts/x.sh", '#!/bin/sh\n. ./lib/words.sh\necho "$WORD $(cat "$1")"\n')
  put(cwd, "lib/words.sh", "WORD=hello\n")
  put(cwd, "in.txt", "world\n")
  put(cwd, "load.py", "print('loaded')\n")
  put(cwd, "sub/y.sh", "#!/bin/sh\necho below\n")
  put(cwd, "bin/greet", "#!/bin/sh\necho greetings\n")
  return cwd
}

const LISTED = ["bin/greet", "in.txt", "lib/words.sh", "load.py", "scripts/x.sh", "sub/y.sh"]

const outputsOf = async (server: Server): Promise<Record<string, unknown>> => {
  const run = await server.trigger("flow")
  expect(await server.reaches(run, "success", "failed")).toMatchObject({ status: "success", error: null })
  const { body } = await server.call("GET", `/runs/${run}/tasks`)
  return Object.fromEntries((body["items"] as { name: string; output: unknown }[]).map(({ name, output }) => [name, output]))
}

const EXPECTED = { script: "hello world", python: "loaded", inside: "below", on_path: "greetings" }

describe("a command finds the scripts beside its definition", () => {
  test("with ork run", async () => {
    expect(await ork(["run", "flow.yaml"], { cwd: setup() })).toMatchObject({ code: 0 })
  })

  test("on a server that serves the folder, which also deploys a changed script", async () => {
    const cwd = setup()
    const server = await startServer(["--dir", "."], { cwd })
    expect(await outputsOf(server)).toEqual(EXPECTED)
    put(cwd, "scripts/x.sh", "#!/bin/sh\necho changed\n")
    await probe(async () => ((await server.call("GET", "/workflows/flow")).body["version"] === 2 ? true : null))
    expect(await outputsOf(server)).toMatchObject({ script: "changed" })
  })

  test("on a worker, after ork deploy, which lists the files", async () => {
    const server = await startServer(["--no-worker"], { cwd: temporaryFolder() })
    await startWorker(server, { name: "far" })
    const env = { ORK_URL: server.url, ORK_API_KEY: server.key }
    expect(await ork(["deploy", "flow.yaml"], { cwd: setup(), env })).toMatchObject({
      code: 0,
      stdout: ["flow.yaml: flow is deployed, version 1", ...LISTED.map((path) => `  with ${path}`), ""].join("\n"),
      stderr: "",
    })
    expect(await outputsOf(server)).toEqual(EXPECTED)
  })
})

test("validate and deploy warn of a script that is not there, with its position", async () => {
  const cwd = temporaryFolder()
  put(cwd, "flow.yaml", "name: flow\ntasks:\n  a:\n    command: ./scripts/x.sh\n")
  const warning = "ork: warning: flow.yaml:4:14: tasks.a.command: there is no file scripts/x.sh beside the definition"
  const validated = await ork(["validate", "flow.yaml"], { cwd })
  expect(validated).toMatchObject({ code: 0, stdout: "flow.yaml: flow is valid, 1 task\n" })
  expect(validated.stderr).toContain(warning)
  const json = JSON.parse((await ork(["validate", "--json", "flow.yaml"], { cwd })).stdout) as object[]
  expect(json).toMatchObject([{ valid: true, problems: [], warnings: [{ path: "tasks.a.command", line: 4, column: 14 }] }])
  const server = await startServer([], { cwd: temporaryFolder() })
  const env = { ORK_URL: server.url, ORK_API_KEY: server.key }
  const deployed = await ork(["deploy", "flow.yaml"], { cwd, env })
  expect(deployed).toMatchObject({ code: 0, stdout: "flow.yaml: flow is deployed, version 1\n" })
  expect(deployed.stderr).toContain(warning)
})
