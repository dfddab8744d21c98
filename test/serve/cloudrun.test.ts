// Workflows on Cloud Run through the built command, on a fake service that runs executions as processes.

import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, beforeEach, expect, test, vi } from "vitest"
import { FakeCloudRun, PROJECT, REGION } from "../../src/executors/cloudrun/testing/fake-cloud-run.ts"
import { ORK, ork, orkRun, temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"

let fake: FakeCloudRun
let cwd: string
let env: Record<string, string>
beforeEach(async () => {
  // The clock of the fake service runs fast, so that the time for late log lines passes quickly.
  const begin = Date.now()
  fake = await FakeCloudRun.start(() => begin + (Date.now() - begin) * 20)
  cwd = temporaryFolder()
  env = {
    ORK_CLOUDRUN_ENDPOINT: fake.address,
    ORK_CLOUDRUN_LOGGING_ENDPOINT: fake.address,
    ORK_CLOUDRUN_PROJECT: PROJECT,
    ORK_CLOUDRUN_REGION: REGION,
    ORK_OBJECT_STORE: `file:${join(cwd, "objects")}`,
  }
})
afterEach(() => fake.stop())

const SLOW = { timeout: 30_000, interval: 50 }

test("a workflow runs on Cloud Run: any image with its log and output, then ork exec with upstream outputs", async () => {
  fake.addJob("tool", ["/bin/sh", "-c"])
  fake.addJob("etl", [ORK], { args: ["exec"], env: [{ name: "ORK_EXEC_SECRET_TOKEN", value: "hunter2-hunter2" }] })
  const flow = `
name: cloud
defaults: { executor: cloudrun }
tasks:
  export: { job: tool, command: ['echo "on $DAY"; echo "{\\"n\\": 20}"'], env: { DAY: monday } }
  load:
    depends_on: [export]
    job: etl
    cloudrun: { exec: true }
    env: { TOKEN: { secret: TOKEN } }
    input: { n: "\${{ tasks.export.output.n }}" }
    command: 'echo "with $TOKEN"; echo "[$(grep -o "[0-9]*" "$ORK_INPUT" | head -1)]"'
`
  writeFileSync(join(cwd, "flow.yaml"), flow)
  const { code, run, stderr } = await orkRun(["flow.yaml"], { cwd, env: { ...env, ORK_SECRET_TOKEN: "hunter2-hunter2" } })
  expect(code, stderr).toBe(0)
  expect(run).toMatchObject({ status: "success", tasks: { success: 2 } })
  expect((await ork(["logs", run.id, "export"], { cwd, env })).stdout).toBe('on monday\n{"n":20}\n')
  const logs = await ork(["logs", run.id, "load"], { cwd, env })
  expect(logs.stdout).toContain("with ***\n[20]")
  expect(JSON.stringify(fake.executions.map(({ overrides }) => overrides))).not.toContain("hunter2")
})

test("after kill -9 of the server, the next one adopts the executions, and each runs once", async () => {
  const starts = (): string => (existsSync(join(cwd, "starts")) ? readFileSync(join(cwd, "starts"), "utf8") : "")
  fake.addJob("tool", ["/bin/sh", "-c"])
  const command = [`echo x >> ${cwd}/starts; while [ ! -e ${cwd}/go ]; do sleep 0.1; done`]
  const wait = { executor: "cloudrun", job: "tool", lost_retries: 0, foreach: [1, 2, 3], command }
  const first = await startServer([], { cwd, env })
  await first.deploy({ name: "long", tasks: { wait } })
  const run = await first.trigger("long")
  await vi.waitUntil(() => starts() === "x\nx\nx\n", SLOW)
  first.process.kill("SIGKILL")
  await first.process.exit
  const second = await startServer([], { cwd, env })
  writeFileSync(join(cwd, "go"), "")
  expect(await second.reaches(run, "failed", "success", "cancelled")).toMatchObject({ status: "success" })
  const { body } = await second.call("GET", `/runs/${run}/tasks/wait?index=1`)
  expect(body).toMatchObject({ attempt: 1, status: "success" })
  expect(starts()).toBe("x\nx\nx\n")
  expect(fake.executions).toHaveLength(3)
})
