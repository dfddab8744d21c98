// Failures, stops and adoption of pods on the fake cluster, and the number of requests.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, test } from "vitest"
import type { AttemptResult } from "../../core/model/change.ts"
import { allLines, assignment, realClock, uniqueId } from "../conformance/fixture.ts"
import { TestHarness, contains, soon } from "./testing/test-harness.ts"
import { RIGHTS } from "./testing/rights.ts"

const harness = new TestHarness()
const { shell } = harness
const disrupted = (reason: string, message: string) => ({ type: "DisruptionTarget", status: "True", reason, message })

describe("failures of pods", () => {
  test("an evicted task is lost, even if it exits with 0 on SIGTERM", async () => {
    const { controllers } = harness
    const task = shell("trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done")
    await task.line("up")
    const [job] = harness.cluster.jobs()
    controllers.kubelet.evict(controllers.podOf(job!.metadata.name)!)
    expect(await task.result).toMatchObject({ state: "lost", error: contains("The node was low on resource: memory.") })
  })

  test("a preempted task is lost when its pod is gone", async () => {
    const { controllers } = harness
    const task = await harness.launchRunning()
    const message = "default-scheduler: preempting to accommodate a higher priority pod"
    const pod = controllers.kubelet.condition(controllers.podOf(task.job)!, disrupted("PreemptionByScheduler", message))
    controllers.jobs.deletePod(pod)
    expect(await task.result).toMatchObject({ state: "lost", error: contains(message) })
  })

  test("a task on a lost node is lost, even if its pod never disappears", async () => {
    const { controllers } = harness
    const task = await harness.launchRunning()
    controllers.kubelet.lost = true
    const message = "Taint manager: deleting due to NoExecute taint"
    const pod = controllers.kubelet.condition(controllers.podOf(task.job)!, disrupted("DeletionByTaintManager", message))
    controllers.jobs.deletePod(pod)
    expect(await task.result).toMatchObject({ state: "lost", error: contains(message) })
    expect(controllers.phaseOf(task.job)).toBe("Running")
  })

  test("a task whose job somebody suspends is lost, and the job is deleted so that it does not start again", async () => {
    const { controllers, cluster } = harness
    const task = await harness.launchRunning()
    controllers.jobs.paused = true
    controllers.jobs.deletePod(controllers.podOf(task.job)!)
    expect(await task.result).toMatchObject({ state: "lost" })
    expect(cluster.count("DELETE jobs")).toBe(1)
  })

  test("a task that exceeds its memory limit fails", async () => {
    const { controllers } = harness
    const task = await harness.launchRunning({ node: { image: "busybox:1.37", resources: { memoryBytes: 2 ** 29 } } })
    controllers.kubelet.outOfMemory(controllers.podOf(task.job)!)
    const error = "exit code 137 (SIGKILL): a process was killed, because it used more than 512 MiB of memory"
    expect(await task.result).toMatchObject({ state: "failed", exitCode: 137, error })
  })

  test("the cluster's own deadline is a timeout", async () => {
    const task = await harness.launchRunning()
    harness.controllers.jobs.exceedDeadline(harness.controllers.job(task.job)!)
    expect(await task.result).toMatchObject({ state: "timeout", error: contains("stopped by the cluster at its deadline") })
  })

  test("a task that waits for a node starts when there is one", async () => {
    const { kubelet } = harness.controllers
    kubelet.schedulable = false
    const task = harness.launch()
    await soon(() => harness.controllers.podOf(task.job) !== undefined)
    kubelet.schedulable = true
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
  })
})

describe("other pods", () => {
  const failed = {
    phase: "Failed",
    containerStatuses: [{ name: "task", state: { terminated: { exitCode: 1, reason: "Error" } } }],
  }

  test("a pod that only copied the labels of a task is ignored", async () => {
    const { cluster, controllers } = harness
    const task = await harness.launchRunning()
    const { labels } = controllers.podOf(task.job)!.metadata
    cluster.storage.add("pods", "work", { metadata: { name: "debug-copy", labels }, spec: {}, status: failed })
    task.go()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
  })

  test("of two pods of one job, the one that succeeded counts, even if the other one is newer", async () => {
    const { cluster, controllers } = harness
    const task = await harness.launchRunning()
    const { labels, ownerReferences } = controllers.podOf(task.job)!.metadata
    await harness.finishUnseen(task)
    const metadata = { name: `${task.job}-again`, labels, ownerReferences }
    cluster.storage.add("pods", "work", { metadata, spec: {}, status: failed })
    cluster.watches.expire()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
  })

  test("the log is that of the pod that counts", async () => {
    const { cluster, controllers, fixture } = harness
    const attemptId = `t${uniqueId()}`
    const flag = join(fixture.folder, attemptId)
    const task = shell(`echo pid $$; while [ ! -e ${flag} ]; do sleep 0.02; done; echo '[1]'`, { attemptId })
    await task.line("pid")
    const first = controllers.podOf(`ork-${attemptId}`)!
    controllers.kubelet.lost = true
    controllers.jobs.deletePod(first)
    controllers.kubelet.lost = false
    const name = `${first.metadata.name}-again`
    cluster.storage.add("pods", "work", { ...first, metadata: { ...first.metadata, name }, status: { phase: "Pending" } })
    await soon(() => (controllers.kubelet.processes.get(name)?.entries.length ?? 0) > 0)
    writeFileSync(flag, "")
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
    const lines = controllers.kubelet.processes.get(name)!.entries.map(({ text }) => text.toString().trim())
    expect((await allLines(task.log)).map(({ line }) => line)).toEqual(lines)
  })
})

describe("times", () => {
  test("start and end are those of the container, however late they are seen", async () => {
    const { cluster, fixture } = harness
    const task = harness.launch({}, fixture.newExecutor({ clock: realClock }))
    await task.line("up")
    cluster.watches.held = []
    task.go()
    await soon(() => harness.controllers.phaseOf(task.job) === "Succeeded")
    const ended = Date.now()
    await soon(() => Date.now() - ended > 2500)
    cluster.watches.flush()
    const { state, startedAt, finishedAt } = await task.result
    expect(state).toBe("success")
    expect(finishedAt - ended).toBeLessThan(1000)
    expect(finishedAt).toBeGreaterThanOrEqual(startedAt!)
  })

  test("the start that an earlier server reported stays", async () => {
    const { fixture } = harness
    const first = await harness.launchRunning({}, fixture.newExecutor())
    first.stop("shutdown")
    const { startedAt } = await first.result
    const again = shell("never run", { attemptId: first.attemptId, adopted: { startedAt } })
    await again.line("up")
    first.go()
    expect(await again.result).toMatchObject({ state: "success", startedAt })
  })
})

describe("stops", () => {
  test("a task that is cancelled before its pod runs leaves nothing behind", async () => {
    const { cluster, controllers } = harness
    controllers.kubelet.schedulable = false
    const task = harness.launch({ env: { TOKEN: "hunter2" }, secrets: ["hunter2"] })
    await soon(() => controllers.podOf(task.job) !== undefined)
    task.stop("cancel")
    expect(await task.result).toMatchObject({ state: "cancelled", startedAt: null })
    for (const kind of ["jobs", "pods"] as const) expect(cluster.storage.list(kind, "work")).toEqual([])
    await soon(() => cluster.storage.list("secrets", "work").length === 0)
  })

  test("a task that is cancelled while its image is pulled has never started", async () => {
    const task = harness.launch({ node: { image: "127.0.0.1:1/ork/missing:1" } })
    await soon(() => harness.controllers.podOf(task.job)?.spec?.["nodeName"] !== undefined)
    task.stop("cancel")
    expect(await task.result).toMatchObject({ state: "cancelled", startedAt: null })
    expect(harness.cluster.count("LOG pods")).toBe(0)
  })

  test("a rate-limited delete is retried", async () => {
    const task = await harness.launchRunning()
    harness.cluster.faults = [{ on: "DELETE jobs", times: 2, response: { status: 429, retryAfter: 1 } }]
    task.stop("cancel")
    expect(await task.result).toMatchObject({ state: "cancelled" })
    expect(harness.cluster.jobs()).toEqual([])
  })

  test("a success before the cancel stays a success, even if the watch was slow", async () => {
    const { watches } = harness.cluster
    const task = await harness.launchRunning()
    watches.held = []
    task.go()
    await soon(() => harness.controllers.phaseOf(task.job) === "Succeeded")
    await task.line("[1]")
    task.stop("cancel")
    await soon(() => harness.cluster.jobs().length === 0)
    watches.flush()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
  })

  test("the cancel of a task without a job creates nothing", async () => {
    const { fixture, cluster } = harness
    const abort = new AbortController()
    abort.abort("cancel")
    const work = assignment(fixture.folder, { shell: "true" }, { attemptId: "t0", node: { image: fixture.image } })
    const end = await fixture.executor.launch(work, { signal: abort.signal, started: () => {}, progress: () => {} })
    expect(end).toMatchObject({ state: "cancelled", startedAt: null })
    expect(cluster.count("POST jobs")).toBe(0)
  })
})

describe("secrets", () => {
  test("they are in a Secret that the job owns and that is deleted with it", async () => {
    const { cluster, controllers } = harness
    const task = await harness.launchRunning({
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

  test("the token of the task's callback is in the Secret, not in the job", async () => {
    const { cluster, controllers } = harness
    const callback = () => ({ ORK_CALLBACK_TOKEN: "t0ken", ORK_CALLBACK_URL: "http://ork/api/v1/callbacks/t0ken" })
    const task = harness.launch({ callback })
    await task.started
    expect(JSON.stringify([cluster.jobs(), controllers.podOf(task.job)])).not.toContain("t0ken")
    const [secret] = cluster.storage.list("secrets", "work")
    expect(Object.keys(secret!.data!).toSorted()).toEqual(["ORK_CALLBACK_TOKEN", "ORK_CALLBACK_URL", "input.json"])
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
    const print = shell(`printf '["%s"]' "$ORK_CALLBACK_TOKEN"`, { callback })
    expect(await print.result).toMatchObject({ output: { inline: ["t0ken"] } })
  })

  test("the next server creates the Secret when the first one died before", async () => {
    const { cluster } = harness
    cluster.faults = [{ on: "POST secrets", times: 99, response: "drop" }]
    const more = { env: { TOKEN: "hunter2" }, secrets: ["hunter2"] }
    const first = harness.launch(more)
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

test("the executor uses exactly the rights of deploy/kubernetes/rbac.yaml", async () => {
  const { cluster, fixture } = harness
  const before = fixture.newExecutor()
  const task = await harness.launchRunning({ env: { TOKEN: "hunter2" }, secrets: ["hunter2"] }, before)
  task.stop("shutdown")
  await task.result
  task.go()
  expect((await shell("", { attemptId: task.attemptId }).result).state).toBe("success")
  harness.controllers.kubelet.schedulable = false
  const late = harness.launch()
  await soon(() => harness.controllers.podOf(late.job) !== undefined)
  late.stop("timeout")
  await late.result
  expect([...cluster.used].toSorted()).toEqual([...RIGHTS].toSorted())
  expect(cluster.rejected).toEqual([])
})

test("1,000 tasks in flight cost one watch of each kind and two requests each", { timeout: 60_000 }, async () => {
  const { cluster } = harness
  const { kubelet } = cluster.controllers
  kubelet.hollow = true
  const executor = harness.fixture.newExecutor({ clock: realClock })
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
  // Watches are excluded: the server ends them after their time limit, and they are resumed.
  const { "WATCH jobs": jobs, "WATCH pods": pods, ...others } = counts
  expect(Object.fromEntries(Object.entries(others).map(([name, all]) => [name, all!.length]))).toEqual({
    "LIST jobs": 1,
    "LIST pods": 1,
    "POST jobs": 1000,
    "LOG pods": 1000,
  })
  expect(cluster.watches.most).toEqual({ jobs: 1, pods: 1 })
  expect(jobs!.length + pods!.length).toBeLessThan(20)
  expect(cluster.rejected).toEqual([])
})
