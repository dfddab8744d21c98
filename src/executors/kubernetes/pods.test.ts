// How pods fail, are stopped and are found again, on the fake cluster; what it costs.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest"
import type { AttemptResult } from "../../core/change.ts"
import { assignment, realClock, uniqueId } from "../conformance/fixture.ts"
import { fakeFixture, type FakeFixture } from "./testing/fixture.ts"
import { workOn } from "./testing/suite.ts"

let fixture: FakeFixture
const { shell } = workOn(() => fixture)
const contains = (text: string): string => expect.stringContaining(text) as string

beforeEach(async () => {
  fixture = await fakeFixture()
  onTestFinished(() => fixture.cleanup())
})

const waiting = (more: Parameters<typeof shell>[1] = {}) => {
  const flag = join(fixture.folder, uniqueId())
  const attemptId = `t${uniqueId()}`
  const launched = shell(`echo up; while [ ! -e ${flag} ]; do sleep 0.02; done; echo '[1]'`, { attemptId, ...more })
  return { ...launched, attemptId, job: `ork-${attemptId}`, go: () => writeFileSync(flag, "") }
}

describe("failures of pods", () => {
  test("one that is evicted is lost", async () => {
    const task = waiting()
    await task.line("up")
    await fixture.cluster.controllers.evict(task.job)
    expect(await task.result).toMatchObject({ state: "lost", error: contains("The node was low on resource: memory.") })
  })

  test("one that is preempted is lost when it is gone", async () => {
    const { controllers } = fixture.cluster
    const task = waiting()
    await task.line("up")
    const message = "default-scheduler: preempting to accommodate a higher priority pod"
    const pod = controllers.condition(controllers.podOf(task.job)!, {
      type: "DisruptionTarget",
      status: "True",
      reason: "PreemptionByScheduler",
      message,
    })
    await controllers.deletePod(pod)
    expect(await task.result).toMatchObject({ state: "lost", error: contains(message) })
  })

  test("one that somebody deletes is lost, a job that somebody deletes has failed", async () => {
    const { controllers, storage } = fixture.cluster
    const [first, second] = [waiting(), waiting()]
    await Promise.all([first.line("up"), second.line("up")])
    await controllers.deletePod(controllers.podOf(first.job)!)
    expect(await first.result).toMatchObject({ state: "lost", error: "its pod was deleted from outside of Ork" })
    await controllers.deleteJob(storage.get("jobs", "work", second.job)!, "Background")
    expect(await second.result).toMatchObject({ state: "failed", error: "its job was deleted from outside of Ork" })
  })

  test("one that uses too much memory fails", async () => {
    const task = waiting({ node: { image: "busybox:1.36", resources: { memoryBytes: 2 ** 29 } } })
    await task.line("up")
    fixture.cluster.controllers.outOfMemory(task.job)
    const error = "exit code 137 (SIGKILL): a process was killed, as it used more than 512 MiB of memory"
    expect(await task.result).toMatchObject({ state: "failed", exitCode: 137, error })
  })

  test("the cluster's own deadline is a timeout", async () => {
    const task = waiting()
    await task.line("up")
    fixture.cluster.controllers.exceedDeadline(task.job)
    expect(await task.result).toMatchObject({ state: "timeout", error: contains("stopped by the cluster at its deadline") })
  })

  test("an image that would be root fails at once, and says what to do", async () => {
    const kubernetes = { security: { run_as_user: "image" } }
    const end = await shell("true", { fields: { kubernetes } }).result
    expect(end).toMatchObject({ state: "failed", retryable: false, error: contains("set kubernetes.security.run_as_user") })
    await vi.waitUntil(() => fixture.cluster.jobs().length === 0)
  })

  test("one that no node takes waits, and tells why when it is stopped for that", async () => {
    const { cluster } = fixture
    cluster.controllers.schedulable = false
    const patient = waiting()
    const task = waiting()
    await vi.waitUntil(() => cluster.controllers.podOf(task.job) !== undefined)
    cluster.controllers.schedulable = false
    await vi.waitUntil(() => (cluster.controllers.podOf(task.job)?.status?.["conditions"] as unknown[])?.length === 1)
    task.stop("timeout")
    const waitedFor = "0/3 nodes are available: 3 Insufficient cpu."
    expect(await task.result).toMatchObject({ state: "timeout", startedAt: null, waitedFor })
    cluster.controllers.schedulable = true
    patient.go()
    expect(await patient.result).toMatchObject({ state: "success" })
  })

  test("one whose pod is forbidden tells who forbids it", async () => {
    const { cluster } = fixture
    const waitedFor = 'pods "x" is forbidden: violates PodSecurity "restricted:latest"'
    cluster.controllers.forbidPods = waitedFor
    const task = waiting()
    await vi.waitUntil(() => cluster.storage.list("events", "work").length > 0)
    task.stop("timeout")
    expect(await task.result).toMatchObject({ state: "timeout", waitedFor })
  })
})

describe("stops", () => {
  test("one that is cancelled before its pod runs leaves nothing behind", async () => {
    const { cluster } = fixture
    cluster.controllers.schedulable = false
    const task = waiting({ env: { TOKEN: "hunter2" }, secrets: ["hunter2"] })
    await vi.waitUntil(() => cluster.controllers.podOf(task.job) !== undefined)
    task.stop("cancel")
    expect(await task.result).toMatchObject({ state: "cancelled", startedAt: null })
    for (const kind of ["jobs", "pods", "secrets"] as const) expect(cluster.storage.list(kind, "work")).toEqual([])
  })

  test("a delete that the server is too busy for is asked for again", async () => {
    const { cluster } = fixture
    const task = waiting()
    await task.line("up")
    cluster.faults = [{ on: "DELETE jobs", times: 2, answer: { status: 429, retryAfter: 1 } }]
    task.stop("cancel")
    expect(await task.result).toMatchObject({ state: "cancelled" })
    expect(cluster.jobs()).toEqual([])
  })

  test("a success that came before the cancel stays one, though the watch was slow to tell", async () => {
    const { cluster } = fixture
    const task = waiting()
    await task.line("up")
    cluster.held = []
    task.go()
    await vi.waitUntil(() => cluster.controllers.podOf(task.job)?.status?.["phase"] === "Succeeded")
    await task.line("[1]")
    task.stop("cancel")
    await vi.waitUntil(() => cluster.jobs().length === 0)
    cluster.letGo()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
  })

  test("a cancel of one that was never made makes nothing", async () => {
    const { cluster, executor } = fixture
    const abort = new AbortController()
    abort.abort("cancel")
    const work = assignment(fixture.folder, { shell: "true" }, { attemptId: "t0", node: { image: "busybox:1.36" } })
    const end = await executor.launch(work, { signal: abort.signal, started: () => {}, progress: () => {} })
    expect(end).toMatchObject({ state: "cancelled", startedAt: null })
    expect(cluster.count("POST jobs")).toBe(0)
  })
})

describe("secrets", () => {
  test("they stand in a Secret that belongs to the job, and in nothing else", async () => {
    const { cluster } = fixture
    const task = waiting({
      env: { TOKEN: "hunter2", URL: "https://u:hunter2@x" },
      input: { a: "hunter2" },
      secrets: ["hunter2"],
    })
    await task.line("up")
    const [job] = cluster.jobs()
    expect(JSON.stringify([job, cluster.controllers.podOf(task.job)])).not.toContain("hunter2")
    const [secret] = cluster.storage.list("secrets", "work")
    expect(secret?.metadata.ownerReferences?.[0]?.uid).toBe(job!.metadata.uid)
    expect(Object.keys(secret!.stringData!).toSorted()).toEqual(["TOKEN", "URL", "input.json"])
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
    await cluster.controllers.deleteJob(job!, "Background")
    expect(cluster.storage.list("secrets", "work")).toEqual([])
  })

  test("a server that died before it made the Secret has it made by the next", async () => {
    const { cluster } = fixture
    cluster.faults = [{ on: "POST secrets", times: 99, answer: "drop" }]
    const more = { env: { TOKEN: "hunter2" }, secrets: ["hunter2"] }
    const first = waiting(more)
    await vi.waitUntil(() => cluster.count("POST secrets") > 0)
    first.stop("shutdown")
    expect(await first.result).toMatchObject({ state: "lost" })
    cluster.faults = []
    const again = shell("echo '[1]'", { attemptId: first.attemptId, ...more })
    first.go()
    expect(await again.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(cluster.controllers.starts).toEqual([first.job])
  })
})

test("1,000 tasks in flight cost one watch of each kind and two requests each", { timeout: 60_000 }, async () => {
  const { cluster } = fixture
  cluster.controllers.hollow = true
  const executor = fixture.newExecutor({ clock: realClock })
  const tasks = Array.from({ length: 1000 }, () => {
    const attemptId = `t${uniqueId()}`
    return { job: `ork-${attemptId}`, ...shell("true", { attemptId }, executor) }
  })
  await Promise.all(tasks.map(({ started }) => started))
  expect(cluster.jobs()).toHaveLength(1000)
  const ends: AttemptResult[] = []
  while (ends.length < tasks.length) {
    const some = tasks.slice(ends.length, ends.length + 100)
    for (const { job } of some) cluster.controllers.finish(job)
    ends.push(...(await Promise.all(some.map(({ result }) => result))))
  }
  expect(new Set(ends.map(({ state, output }) => JSON.stringify([state, output])))).toEqual(
    new Set(['["success",{"inline":{"hollow":true}}]']),
  )
  const counts = Object.groupBy(cluster.requests, (request) => request)
  expect(Object.fromEntries(Object.entries(counts).map(([name, all]) => [name, all!.length]))).toEqual({
    "LIST jobs": 1,
    "LIST pods": 1,
    "WATCH jobs": 1,
    "WATCH pods": 1,
    "POST jobs": 1000,
    "LOG pods": 1000,
  })
  expect(cluster.refused).toEqual([])
})
