// Workflows on Kubernetes through the built command, on a fake cluster that runs pods as processes.

import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, beforeEach, expect, test, vi } from "vitest"
import { FakeCluster } from "../../src/executors/kubernetes/testing/fake-cluster.ts"
import { ORK, orkRun, temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"

let cluster: FakeCluster
let env: Record<string, string>
beforeEach(async () => {
  cluster = await new FakeCluster().start()
  env = { KUBECONFIG: cluster.kubeconfig, ORK_SECRET_TOKEN: "hunter2-hunter2" }
})
afterEach(() => cluster.stop())

const SLOW = { timeout: 30_000, interval: 50 }

const WORKFLOW = `
name: cluster
defaults: { executor: kubernetes, image: "busybox:1.36", resources: { cpu: 100m, memory: 50Mi } }
tasks:
  split: { command: 'echo ''{"parts":[1,2,3]}''' }
  work:
    depends_on: [split]
    foreach: split.parts
    env: { TOKEN: { secret: TOKEN } }
    command: 'echo "with $TOKEN"; echo "[\${{ item * 10 }}]"'
  sum:
    depends_on: [work]
    command: 'cat "$ORK_INPUT" > "$ORK_OUTPUT"'
    input: { all: "\${{ tasks.work.output }}" }
`

test("a workflow runs on the cluster, and its secrets appear in no log", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), WORKFLOW)
  const { code, run, stderr } = await orkRun(["flow.yaml"], { cwd, env })
  expect(code, stderr).toBe(0)
  expect(run).toMatchObject({ status: "success", tasks: { success: 5 } })
  expect(cluster.rejected).toEqual([])
  expect(JSON.stringify(cluster.jobs())).not.toContain("hunter2")
  expect(cluster.jobs().map(({ metadata }) => metadata.labels?.["ork.dev/workflow"])).toEqual(Array(5).fill("cluster"))
})

test("with exec, the container runs ork exec, and all data passes through the object store", async () => {
  const cwd = temporaryFolder()
  const task = {
    executor: "kubernetes",
    image: "ork:latest",
    command: 'echo "said $TOKEN"; seq 1 20000 | sed "s/.*/[&]/" | tail -1',
    env: { TOKEN: { secret: "TOKEN" } },
    kubernetes: { exec: true, entrypoint: [ORK, "exec"] },
  }
  writeFileSync(join(cwd, "flow.json"), JSON.stringify({ name: "exec", tasks: { task } }))
  const store = `file:${join(cwd, "objects")}`
  const { code, run, stderr } = await orkRun(["flow.json"], { cwd, env: { ...env, ORK_OBJECT_STORE: store } })
  expect(code, stderr).toBe(0)
  expect(run).toMatchObject({ status: "success" })
  expect(JSON.stringify(cluster.jobs())).not.toContain("hunter2")
  expect(cluster.count("LOG pods")).toBe(0)
})

const long = (cwd: string) => ({
  name: "long",
  tasks: {
    wait: {
      executor: "kubernetes",
      image: "busybox:1.36",
      lost_retries: 0,
      foreach: [1, 2, 3],
      command: `echo up; echo x >> ${cwd}/starts; while [ ! -e ${cwd}/go ]; do sleep 0.1; done; echo '["done"]'`,
    },
  },
})

const starts = (cwd: string): string => {
  try {
    return readFileSync(join(cwd, "starts"), "utf8")
  } catch {
    return ""
  }
}

test("after kill -9 of the server, the next one adopts the jobs, and each was created once", async () => {
  const cwd = temporaryFolder()
  const first = await startServer([], { cwd, env })
  await first.deploy(long(cwd))
  const run = await first.trigger("long")
  await vi.waitUntil(() => starts(cwd) === "x\nx\nx\n", SLOW)
  first.process.kill("SIGKILL")
  await first.process.exit
  const second = await startServer([], { cwd, env })
  writeFileSync(join(cwd, "go"), "")
  expect(await second.reaches(run, "failed", "success", "cancelled")).toMatchObject({ status: "success" })
  const { body } = await second.call("GET", `/runs/${run}/tasks/wait?index=1`)
  expect(body).toMatchObject({ attempt: 1, output: ["done"] })
  expect(starts(cwd)).toBe("x\nx\nx\n")
  expect(cluster.jobs()).toHaveLength(3)
})

/** A longer variant of the test before. */
const all = process.env["ORK_TEST_ALL"] === "1"

test.runIf(all)("a stopped server leaves its jobs to the next one, and cancel deletes them", async () => {
  const cwd = temporaryFolder()
  const first = await startServer([], { cwd, env: { ...env, ORK_GRACE: "1s" } })
  await first.deploy(long(cwd))
  const run = await first.trigger("long")
  await vi.waitUntil(() => starts(cwd) === "x\nx\nx\n", SLOW)
  first.process.kill("SIGTERM")
  await first.process.exit
  expect(cluster.count("DELETE jobs")).toBe(0)
  const second = await startServer([], { cwd, env })
  await second.call("POST", `/runs/${run}/cancel`)
  expect(await second.reaches(run, "failed", "success", "cancelled")).toMatchObject({ status: "cancelled" })
  expect(cluster.jobs()).toEqual([])
  expect(starts(cwd)).toBe("x\nx\nx\n")
})
