// How pods fail, are stopped and are found again, on the fake cluster; what it costs.

import { describe, expect, test } from "vitest"
import type { AttemptResult } from "../../core/model/change.ts"
import { assignment, realClock, uniqueId } from "../conformance/fixture.ts"
import { Bench, contains, soon } from "./testing/test-cluster.ts"
import { RIGHTS } from "./testing/rights.ts"

const bench = new Bench()
const { shell } = bench
const disrupted = (reason: string, message: string) => ({ type: "DisruptionTarget", status: "True", reason, message })

describe("failures of pods", () => {
  test("one that is evicted is lost, though it ends well when it is told to go", async () => {
    const { controllers } = bench
    const task = shell("trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done")
    await task.line("up")
    const [job] = bench.cluster.jobs()
    controllers.kubelet.evict(controllers.podOf(job!.metadata.name)!)
    expect(await task.result).toMatchObject({ state: "lost", error: contains("The node was low on resource: memory.") })
  })

  test("one that is preempted is lost when it is gone", async () => {
    const { controllers } = bench
    const task = await bench.running()
    const message = "default-scheduler: preempting to accommodate a higher priority pod"
    const pod = controllers.kubelet.condition(controllers.podOf(task.job)!, disrupted("PreemptionByScheduler", message))
    controllers.jobs.deletePod(pod)
    expect(await task.result).toMatchObject({ state: "lost", error: contains(message) })
  })

  test("one whose node is lost is given up, though its pod never goes", async () => {
    const { controllers } = bench
    const task = await bench.running()
    controllers.kubelet.lost = true
    const message = "Taint manager: deleting due to NoExecute taint"
    const pod = controllers.kubelet.condition(controllers.podOf(task.job)!, disrupted("DeletionByTaintManager", message))
    controllers.jobs.deletePod(pod)
    expect(await task.result).toMatchObject({ state: "lost", error: contains(message) })
    expect(controllers.phaseOf(task.job)).toBe("Running")
  })

  test("one whose job is suspended by somebody is given up, and the job taken away so that it does not begin again", async () => {
    const { controllers, cluster } = bench
    const task = await bench.running()
    controllers.jobs.paused = true
    controllers.jobs.deletePod(controllers.podOf(task.job)!)
    expect(await task.result).toMatchObject({ state: "lost" })
    expect(cluster.count("DELETE jobs")).toBe(1)
  })

  test("one that uses too much memory fails", async () => {
    const { controllers } = bench
    const task = await bench.running({ node: { image: "busybox:1.37", resources: { memoryBytes: 2 ** 29 } } })
    controllers.kubelet.outOfMemory(controllers.podOf(task.job)!)
    const error = "exit code 137 (SIGKILL): a process was killed, because it used more than 512 MiB of memory"
    expect(await task.result).toMatchObject({ state: "failed", exitCode: 137, error })
  })

  test("the cluster's own deadline is a timeout", async () => {
    const task = await bench.running()
    bench.controllers.jobs.exceedDeadline(bench.controllers.job(task.job)!)
    expect(await task.result).toMatchObject({ state: "timeout", error: contains("stopped by the cluster at its deadline") })
  })

  test("one that waits for a node begins when there is one", async () => {
    const { kubelet } = bench.controllers
    kubelet.schedulable = false
    const task = bench.waiting()
    await soon(() => bench.controllers.podOf(task.job) !== undefined)
    kubelet.schedulable = true
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
  })
})

describe("stops", () => {
  test("one that is cancelled before its pod runs leaves nothing behind", async () => {
    const { cluster, controllers } = bench
    controllers.kubelet.schedulable = false
    const task = bench.waiting({ env: { TOKEN: "hunter2" }, secrets: ["hunter2"] })
    await soon(() => controllers.podOf(task.job) !== undefined)
    task.stop("cancel")
    expect(await task.result).toMatchObject({ state: "cancelled", startedAt: null })
    for (const kind of ["jobs", "pods"] as const) expect(cluster.storage.list(kind, "work")).toEqual([])
    await soon(() => cluster.storage.list("secrets", "work").length === 0)
  })

  test("one whose image is still being pulled when it is cancelled has never begun", async () => {
    const task = bench.waiting({ node: { image: "127.0.0.1:1/ork/missing:1" } })
    await soon(() => bench.controllers.podOf(task.job)?.spec?.["nodeName"] !== undefined)
    task.stop("cancel")
    expect(await task.result).toMatchObject({ state: "cancelled", startedAt: null })
    expect(bench.cluster.count("LOG pods")).toBe(0)
  })

  test("a delete that the server is too busy for is asked for again", async () => {
    const task = await bench.running()
    bench.cluster.faults = [{ on: "DELETE jobs", times: 2, answer: { status: 429, retryAfter: 1 } }]
    task.stop("cancel")
    expect(await task.result).toMatchObject({ state: "cancelled" })
    expect(bench.cluster.jobs()).toEqual([])
  })

  test("a success that came before the cancel stays one, though the watch was slow to tell", async () => {
    const { watches } = bench.cluster
    const task = await bench.running()
    watches.held = []
    task.go()
    await soon(() => bench.controllers.phaseOf(task.job) === "Succeeded")
    await task.line("[1]")
    task.stop("cancel")
    await soon(() => bench.cluster.jobs().length === 0)
    watches.letGo()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
  })

  test("a cancel of one that was never made makes nothing", async () => {
    const { fixture, cluster } = bench
    const abort = new AbortController()
    abort.abort("cancel")
    const work = assignment(fixture.folder, { shell: "true" }, { attemptId: "t0", node: { image: fixture.image } })
    const end = await fixture.executor.launch(work, { signal: abort.signal, started: () => {}, progress: () => {} })
    expect(end).toMatchObject({ state: "cancelled", startedAt: null })
    expect(cluster.count("POST jobs")).toBe(0)
  })
})

describe("secrets", () => {
  test("they stand in a Secret that belongs to the job and goes with it", async () => {
    const { cluster, controllers } = bench
    const task = await bench.running({
      env: { TOKEN: "hunter2", URL: "https://u:hunter2@x" },
      input: { a: "hunter2" },
      secrets: ["hunter2"],
    })
    const [secret] = cluster.storage.list("secrets", "work")
    expect(secret?.metadata.ownerReferences?.[0]?.uid).toBe(controllers.job(task.job)!.metadata.uid)
    expect(Object.keys(secret!.data!).toSorted()).toEqual(["TOKEN", "URL", "input.json"])
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
    controllers.delete("jobs", task.job)
    await soon(() => cluster.storage.list("secrets", "work").length === 0)
  })

  test("a server that died before it made the Secret has it made by the next", async () => {
    const { cluster } = bench
    cluster.faults = [{ on: "POST secrets", times: 99, answer: "drop" }]
    const more = { env: { TOKEN: "hunter2" }, secrets: ["hunter2"] }
    const first = bench.waiting(more)
    await soon(() => cluster.count("POST secrets") > 0)
    first.stop("shutdown")
    expect(await first.result).toMatchObject({ state: "lost" })
    cluster.faults = []
    const again = shell("echo '[1]'", { attemptId: first.attemptId, ...more })
    first.go()
    expect(await again.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(cluster.controllers.kubelet.starts).toEqual([first.job])
  })
})

test("all that deploy/kubernetes/rbac.yaml allows is made use of, and nothing else is asked for", async () => {
  const { cluster, fixture } = bench
  const before = fixture.newExecutor()
  const task = await bench.running({ env: { TOKEN: "hunter2" }, secrets: ["hunter2"] }, before)
  task.stop("shutdown")
  await task.result
  task.go()
  expect((await shell("", { attemptId: task.attemptId }).result).state).toBe("success")
  bench.controllers.kubelet.schedulable = false
  const late = bench.waiting()
  await soon(() => bench.controllers.podOf(late.job) !== undefined)
  late.stop("timeout")
  await late.result
  expect([...cluster.used].toSorted()).toEqual([...RIGHTS].toSorted())
  expect(cluster.refused).toEqual([])
})

test("1,000 tasks in flight cost one watch of each kind and two requests each", { timeout: 60_000 }, async () => {
  const { cluster } = bench
  const { kubelet } = cluster.controllers
  kubelet.hollow = true
  const executor = bench.fixture.newExecutor({ clock: realClock })
  const tasks = Array.from({ length: 1000 }, () => {
    const attemptId = `t${uniqueId()}`
    return { job: `ork-${attemptId}`, ...shell("true", { attemptId }, executor) }
  })
  await Promise.all(tasks.map(({ started }) => started))
  expect(cluster.jobs()).toHaveLength(1000)
  const ends: AttemptResult[] = []
  while (ends.length < tasks.length) {
    const some = tasks.slice(ends.length, ends.length + 100)
    for (const { job } of some) kubelet.finish(job)
    ends.push(...(await Promise.all(some.map(({ result }) => result))))
  }
  expect(new Set(ends.map(({ state, output }) => JSON.stringify([state, output])))).toEqual(
    new Set(['["success",{"inline":{"hollow":true}}]']),
  )
  const counts = Object.groupBy(cluster.requests, (request) => request)
  // The server ends a watch when its time is over, and it is then resumed.
  const { "WATCH jobs": jobs, "WATCH pods": pods, ...others } = counts
  expect(Object.fromEntries(Object.entries(others).map(([name, all]) => [name, all!.length]))).toEqual({
    "LIST jobs": 1,
    "LIST pods": 1,
    "POST jobs": 1000,
    "LOG pods": 1000,
  })
  expect(cluster.watches.most).toEqual({ jobs: 1, pods: 1 })
  expect(jobs!.length + pods!.length).toBeLessThan(20)
  expect(cluster.refused).toEqual([])
})
