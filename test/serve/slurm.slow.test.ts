// Workflows on a real Slurm cluster through the built command.

import { execFile } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, expect, test, vi } from "vitest"
import { FUNCTION_RESULTS, writeFunctions } from "../support/function-files.ts"
import { ork, orkRun, REPO, temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"
import { type SlurmCluster, startSlurm } from "../support/components/slurm.ts"

let cluster: SlurmCluster
beforeAll(async () => {
  cluster = await startSlurm()
}, 120_000)
afterAll(() => cluster.stop(), 60_000)

const slurm = async (program: string, ...args: string[]): Promise<string> =>
  (await promisify(execFile)(program, args, { env: cluster.env })).stdout.trim()

const live = (): Promise<string> => slurm("squeue", "-h", "-t", "PENDING,RUNNING", "-o", "%i")
const SLOW = { timeout: 40_000, interval: 100 }

const WORKFLOW = `
name: cluster
defaults: { executor: slurm, resources: { cpu: 1, memory: 50Mi } }
tasks:
  split: { command: 'echo ''{"parts":[1,2,3,4,5,6]}''' }
  work:
    depends_on: [split]
    foreach: split.parts
    command: 'echo "$SLURM_ARRAY_JOB_ID" >> arrays.txt; echo "[\${{ item * 10 }}]"'
  sum:
    depends_on: [work]
    command: 'echo "{\\"all\\":\${{ tasks.work.output }}}" > $ORK_OUTPUT; sort -u arrays.txt | wc -l'
`

test("a workflow runs on the cluster, with its fan-out as one job array", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), WORKFLOW)
  const { code, run, stderr } = await orkRun(["flow.yaml"], { cwd, env: { SLURM_CONF: cluster.env.SLURM_CONF } })
  expect(code, stderr).toBe(0)
  expect(run).toMatchObject({ status: "success", tasks: { success: 8 } })
  expect(new Set((await slurm("cat", join(cwd, "arrays.txt"))).split("\n")).size).toBe(1)
}, 120_000)

test("functions in TypeScript and Python run on nodes that have Ork", async () => {
  const cwd = temporaryFolder()
  writeFunctions(cwd, { executor: "slurm", resources: { cpu: 1, memory: "500Mi" } })
  const env = { SLURM_CONF: cluster.env.SLURM_CONF, PATH: `${join(REPO, "bin")}:${cluster.env.PATH}` }
  const { run, stderr } = await orkRun(["flow.json"], { cwd, env })
  expect(run.status, stderr).toBe("failed")
  const shown = JSON.parse((await ork(["show", "latest", "--json"], { cwd })).stdout) as { task_list: unknown[] }
  expect(shown.task_list).toMatchObject(FUNCTION_RESULTS)
  expect((await ork(["logs", "latest", "words"], { cwd })).stdout).toContain("counting in words")
  expect((await ork(["logs", "latest", "fails"], { cwd })).stdout).toContain("no such table")
}, 120_000)

const long = (cwd: string) => ({
  name: "long",
  tasks: {
    wait: {
      executor: "slurm",
      lost_retries: 0,
      command: `echo up; echo x >> ${cwd}/starts; while [ ! -e ${cwd}/go ]; do sleep 0.1; done; echo '["done"]'`,
    },
  },
})

test("explain shows id, state and reason of the job", async () => {
  const cwd = temporaryFolder()
  const env = { SLURM_CONF: cluster.env.SLURM_CONF }
  const server = await startServer([], { cwd, env })
  const command = `while [ ! -e ${cwd}/go ]; do sleep 0.1; done`
  await server.deploy({
    name: "busy",
    tasks: {
      runs: { executor: "slurm", command, slurm: { options: ["--exclusive"] } },
      waits: { executor: "slurm", command, slurm: { options: ["--begin=now+1hour"] } },
    },
  })
  const run = await server.trigger("busy")
  const explain = async (): Promise<string> => (await ork(["explain", run], { cwd, env })).stdout
  await vi.waitUntil(async () => /RUNNING[^]*PENDING/.test(await explain()), SLOW)
  const text = await explain()
  expect(text).toMatch(/runs runs on .*; Slurm job \d+ is RUNNING\./)
  expect(text).toMatch(
    /waits was claimed by .* and has not started yet \(attempt 1\); Slurm job \d+ is PENDING \(BeginTime\)\./,
  )
  await server.call("POST", `/runs/${run}/cancel`)
  expect(await server.reaches(run, "cancelled", "failed", "success")).toMatchObject({ status: "cancelled" })
}, 120_000)

test("cancel removes the job from the cluster", async () => {
  const cwd = temporaryFolder()
  const server = await startServer([], { cwd, env: { SLURM_CONF: cluster.env.SLURM_CONF } })
  await server.deploy(long(cwd))
  const run = await server.trigger("long")
  const up = async (): Promise<boolean> => (await server.call("GET", `/runs/${run}/tasks/wait/logs`)).text.includes("up")
  await vi.waitUntil(up, SLOW)
  await server.call("POST", `/runs/${run}/cancel`)
  expect(await server.reaches(run, "cancelled", "failed", "success")).toMatchObject({ status: "cancelled" })
  await vi.waitUntil(async () => (await live()) === "", SLOW)
}, 120_000)

test("after kill -9 of the server, the next one adopts the job, which runs once", async () => {
  const cwd = temporaryFolder()
  const env = { SLURM_CONF: cluster.env.SLURM_CONF }
  const first = await startServer([], { cwd, env })
  await first.deploy(long(cwd))
  const run = await first.trigger("long")
  const up = async (): Promise<boolean> => (await first.call("GET", `/runs/${run}/tasks/wait/logs`)).text.includes("up")
  await vi.waitUntil(up, SLOW)
  first.process.kill("SIGKILL")
  await first.process.exit
  expect(await live()).not.toBe("")
  const second = await startServer([], { cwd, env })
  writeFileSync(join(cwd, "go"), "")
  expect(await second.reaches(run, "failed", "success", "cancelled")).toMatchObject({ status: "success" })
  const { body } = await second.call("GET", `/runs/${run}/tasks/wait`)
  expect(body).toMatchObject({ attempt: 1, output: ["done"] })
  expect(await slurm("cat", join(cwd, "starts"))).toBe("x")
}, 120_000)
