// Workflows in containers through the built command, on a real Docker engine.

import { execFile } from "node:child_process"
import { readFileSync, realpathSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, expect, test, vi } from "vitest"
import { type DockerDaemon, IMAGE, startDocker } from "../support/components/docker.ts"
import { FUNCTION_RESULTS, writeFunctions } from "../support/function-files.ts"
import { ork, orkRun, REPO, temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"

let engine: DockerDaemon
beforeAll(async () => {
  engine = await startDocker()
}, 120_000)
afterAll(() => engine.stop(), 60_000)

const containers = async (): Promise<string[]> => {
  const { stdout } = await promisify(execFile)("docker", ["-H", engine.host, "ps", "-aq", "--filter", "label=ork.run"])
  return stdout.split("\n").filter((line) => line !== "")
}

const WORKFLOW = `
name: containers
env: { TOKEN: { secret: DEMO } }
defaults: { executor: docker, image: ${IMAGE} }
tasks:
  make:
    command: 'echo "with $TOKEN" > shared.txt; echo ''{"files":["a","b"]}'' > $ORK_OUTPUT'
  each:
    depends_on: [make]
    foreach: make.files
    command: 'cat shared.txt; echo "{\\"made\\":\\"\${{ item }}\\"}"'
    resources: { memory: 64Mi, cpu: 0.5 }
  join:
    depends_on: [each]
    executor: process
    command: cat
`

test("one line moves a workflow into containers, and none is left afterwards", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), WORKFLOW)
  const { code, run, stderr } = await orkRun(["flow.yaml"], {
    cwd,
    env: { DOCKER_HOST: engine.host, ORK_SECRET_DEMO: "hunter2" },
  })
  expect(code, stderr).toBe(0)
  expect(run).toMatchObject({ status: "success", tasks: { success: 4 } })
  expect(readFileSync(join(cwd, "shared.txt"), "utf8")).toBe("with hunter2\n")
  expect(await containers()).toEqual([])
})

test("functions in TypeScript and Python run in containers that have Ork", async () => {
  const cwd = temporaryFolder()
  // The image gets Ork, Node's libraries and Python from this machine.
  writeFileSync(join(cwd, "ork"), '#!/bin/sh\nexec /opt/ork/bin/ork "$@"\n', { mode: 0o755 })
  const mounts = ["/usr/lib:/usr/lib:ro", "/usr/bin:/usr/bin:ro", `${REPO}:/opt/ork:ro`, "./ork:/bin/ork:ro"]
  for (const folder of ["/lib", "/lib64"]) mounts.push(`${realpathSync(folder)}:${folder}:ro`)
  writeFunctions(cwd, { executor: "docker", image: IMAGE, env: { PATH: "/bin:/usr/bin" }, docker: { mounts } })
  const env = { DOCKER_HOST: engine.host }
  const { run, stderr } = await orkRun(["flow.json"], { cwd, env })
  expect(run.status, stderr).toBe("failed")
  const shown = JSON.parse((await ork(["show", "latest", "--json"], { cwd })).stdout) as { task_list: unknown[] }
  expect(shown.task_list).toMatchObject(FUNCTION_RESULTS)
  expect((await ork(["logs", "latest", "words"], { cwd })).stdout).toContain("counting in words")
  expect((await ork(["logs", "latest", "fails"], { cwd })).stdout).toContain("no such table")
  expect(await containers()).toEqual([])
}, 120_000)

const LONG = {
  name: "long",
  tasks: { wait: { executor: "docker", image: IMAGE, command: "echo up; sleep 600", retries: 0, lost_retries: 0 } },
}

test("cancel stops the container of a run", async () => {
  const cwd = temporaryFolder()
  const server = await startServer([], { cwd, env: { DOCKER_HOST: engine.host } })
  await server.deploy(LONG)
  const run = await server.trigger("long")
  await vi.waitUntil(async () => (await containers()).length === 1, { timeout: 30_000, interval: 100 })
  await vi.waitUntil(async () => (await server.call("GET", `/runs/${run}/tasks/wait/logs`)).text.includes("up"), {
    timeout: 30_000,
    interval: 100,
  })
  await server.call("POST", `/runs/${run}/cancel`)
  expect(await server.reaches(run, "cancelled", "failed", "success")).toMatchObject({ status: "cancelled" })
  expect(await containers()).toEqual([])
})

test("after kill -9 of the server, the next one removes its container and finishes the attempt", async () => {
  const cwd = temporaryFolder()
  const env = { DOCKER_HOST: engine.host }
  const first = await startServer([], { cwd, env })
  await first.deploy(LONG)
  const run = await first.trigger("long")
  await first.reaches(run, "running")
  await vi.waitUntil(async () => (await containers()).length === 1, { timeout: 30_000, interval: 100 })
  first.process.kill("SIGKILL")
  await first.process.exit
  expect(await containers()).toHaveLength(1)
  const second = await startServer([], { cwd, env })
  expect(await second.reaches(run, "failed", "success", "cancelled")).toMatchObject({ status: "failed" })
  expect(await containers()).toEqual([])
})
