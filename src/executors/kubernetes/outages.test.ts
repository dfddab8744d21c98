// Outages of the API server, injected into the fake one: no attempt may end while its Job may run.

import { existsSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, test, vi } from "vitest"
import { fastClock } from "./testing/fixture.ts"
import type { Fault } from "./testing/fake-cluster.ts"
import { contains, soon, TestHarness } from "./testing/test-harness.ts"

const harness = new TestHarness()
const { shell } = harness

/** The response of an API server whose RBAC caches are not filled. */
const FORBIDDEN = { status: 403, reason: "Forbidden", message: 'User "ork" cannot do that' }
const QUOTA = { status: 403, reason: "Forbidden", message: "jobs.batch is forbidden: exceeded quota: count, used: 2" }

/** Resolves with the attempt's state, or "pending" when it has not ended after the fault was met `times` times. */
const stateAfter = async (result: Promise<{ state: string }>, request: string, times: number): Promise<string> => {
  await soon(() => harness.cluster.count(request) >= times)
  return await Promise.race([result.then(({ state }) => state), Promise.resolve("pending")])
}

describe("stops", () => {
  test.each<[string, Fault["response"]]>([
    ["rejected with 403", FORBIDDEN],
    ["lost", "drop"],
  ])("a delete that is %s is repeated until the job is gone", async (_, response) => {
    const { cluster } = harness
    const task = await harness.launchRunning()
    cluster.faults = [{ on: "DELETE jobs", times: 12, response }]
    task.stop("cancel")
    expect(await stateAfter(task.result, "DELETE jobs", 12)).toBe("pending")
    expect(await task.result).toMatchObject({ state: "cancelled" })
    expect(cluster.jobs()).toEqual([])
  })

  test("the same holds for a timeout, and for a container that runs ork exec", async () => {
    const { cluster } = harness
    const task = harness.launch({ fields: { kubernetes: { exec: true, entrypoint: ["sleep", "60"] } } })
    await task.started
    cluster.faults = [{ on: "DELETE jobs", times: 12, response: FORBIDDEN }]
    task.stop("timeout")
    expect(await task.result).toMatchObject({ state: "timeout" })
    expect(cluster.jobs()).toEqual([])
  })

  test("a job that cannot start is deleted, however often the delete fails", async () => {
    const { cluster } = harness
    cluster.faults = [{ on: "DELETE jobs", times: 9, response: FORBIDDEN }]
    const task = harness.launch({ node: { image: "127.0.0.1:1/ork/missing:1" } })
    expect(await task.result).toMatchObject({ state: "failed", error: contains("the image cannot be pulled") })
    await soon(() => cluster.jobs().length === 0)
  })
})

describe("an unreachable cluster", () => {
  test("a task waits for it, and starts when it is back", async () => {
    const { cluster } = harness
    cluster.down = true
    const task = harness.launch()
    expect(await stateAfter(task.result, "LIST pods", 8)).toBe("pending")
    cluster.down = false
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
    expect(harness.fixture.logged).toContain("failed to watch the cluster; trying again")
  })

  test("a task that no request has left for ends at its start timeout with the reason", async () => {
    const { cluster } = harness
    cluster.down = true
    const task = harness.launch()
    await soon(() => cluster.count("LIST pods") >= 3)
    task.stop("timeout")
    const waitedFor = contains("the cluster cannot be reached")
    expect(await task.result).toMatchObject({ state: "timeout", startedAt: null, waitedFor })
  })

  test("a server that starts during the outage waits for the job of the last one, which runs once", async () => {
    const { cluster, fixture, controllers } = harness
    const before = fixture.newExecutor()
    const first = await harness.launchRunning({}, before)
    first.stop("shutdown")
    await first.result
    await before.stop()
    cluster.down = true
    const again = shell("never run", { attemptId: first.attemptId, adopted: { startedAt: null } })
    expect(await stateAfter(again.result, "LIST pods", 10)).toBe("pending")
    cluster.down = false
    first.go()
    expect(await again.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(controllers.kubelet.starts).toEqual([first.job])
  })

  test.each(["timeout", "cancel"] as const)(
    "%s of an adopted task ends it when its job is gone, not before",
    async (reason) => {
      const { cluster, fixture } = harness
      const before = fixture.newExecutor()
      const first = await harness.launchRunning({}, before)
      first.stop("shutdown")
      await first.result
      await before.stop()
      cluster.down = true
      const again = shell("never run", { attemptId: first.attemptId, adopted: { startedAt: null } })
      await soon(() => cluster.count("LIST pods") >= 3)
      again.stop(reason)
      expect(await stateAfter(again.result, "GET jobs", 8)).toBe("pending")
      cluster.down = false
      expect(await again.result).toMatchObject({ state: reason === "cancel" ? "cancelled" : "timeout" })
      expect(cluster.jobs()).toEqual([])
    },
  )

  test("a task whose create was answered by nobody is deleted when it is stopped", async () => {
    const { cluster, controllers } = harness
    cluster.faults = [
      { on: "POST jobs", times: 1, response: "lose" },
      { on: "POST jobs", times: 99, response: "drop" },
    ]
    const task = harness.launch()
    await soon(() => cluster.count("POST jobs") >= 2 && controllers.phaseOf(task.job) === "Running")
    task.stop("cancel")
    expect(await task.result).toMatchObject({ state: "cancelled" })
    expect(cluster.jobs()).toEqual([])
  })
})

describe("a starting API server", () => {
  test.each(["POST jobs", "POST secrets", "LIST pods", "LIST jobs"])("403 to %s is not final at first", async (on) => {
    const { cluster } = harness
    cluster.faults = [{ on, times: 4, response: FORBIDDEN }]
    const task = shell("echo '[1]'", { env: { TOKEN: "hunter2" }, secrets: ["hunter2"] })
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
  })

  test("403 that stays fails the task with advice, and a cancel meanwhile ends it at once", async () => {
    const { cluster } = harness
    cluster.faults = [{ on: "POST jobs", times: 99, response: FORBIDDEN }]
    const task = harness.launch()
    await soon(() => cluster.count("POST jobs") >= 2)
    const cancelled = harness.launch()
    cancelled.stop("cancel")
    expect(await cancelled.result).toMatchObject({ state: "cancelled" })
    const error = contains("the rights that Ork needs are in deploy/kubernetes/rbac.yaml")
    expect(await task.result).toMatchObject({ state: "failed", retryable: false, error })
    expect(cluster.count("GET jobs")).toBe(0)
  })
})

describe("a quota", () => {
  test("a task waits for a quota on Jobs to allow its own", async () => {
    harness.cluster.faults = [{ on: "POST jobs", times: 12, response: QUOTA }]
    expect(await shell("echo '[1]'").result).toMatchObject({ state: "success", output: { inline: [1] } })
  })

  test("its start timeout names the quota", async () => {
    const { cluster } = harness
    cluster.faults = [{ on: "POST jobs", times: 99, response: QUOTA }]
    const task = harness.launch()
    await soon(() => cluster.count("POST jobs") >= 3)
    task.stop("timeout")
    expect(await task.result).toMatchObject({ state: "timeout", startedAt: null, waitedFor: contains("exceeded quota") })
  })

  test("a server finds the job of the last one although the quota is exhausted", async () => {
    const { cluster, fixture, controllers } = harness
    const first = await harness.launchRunning({}, fixture.newExecutor())
    first.stop("shutdown")
    await first.result
    cluster.faults = [{ on: "POST jobs", times: 99, response: QUOTA }]
    const again = shell("never run", { attemptId: first.attemptId, adopted: { startedAt: null } })
    first.go()
    expect(await again.result).toMatchObject({ state: "success" })
    expect(controllers.kubelet.starts).toEqual([first.job])
  })
})

describe("credentials", () => {
  test("all requests that an expired token fails are repeated with the new one", async () => {
    const { cluster } = harness
    vi.useFakeTimers({ toFake: ["Date"] })
    try {
      expect((await shell("true").result).state).toBe("success")
      cluster.token = "renewed"
      cluster.writeKubeconfig()
      vi.setSystemTime(Date.now() + 6000)
      const tasks = Array.from({ length: 20 }, () => shell("true"))
      const ends = await Promise.all(tasks.map(({ result }) => result))
      expect(ends.map(({ state }) => state)).toEqual(Array(20).fill("success"))
      expect(cluster.requests.filter((request) => request === "POST jobs").length).toBeLessThanOrEqual(41)
    } finally {
      vi.useRealTimers()
    }
  })
})

test("a job that cannot start is given up also while the clock is set back", async () => {
  const executor = harness.fixture.newExecutor({ clock: { ...fastClock, now: () => 1e15 - fastClock.now() } })
  const task = harness.launch({ node: { image: "127.0.0.1:1/ork/missing:1" } }, executor)
  expect(await task.result).toMatchObject({ state: "failed", error: contains("the image cannot be pulled") })
})

describe("leftover jobs", () => {
  test("a job that nobody follows is deleted by the second sweep if its attempt has ended; others stay", async () => {
    const { cluster, fixture } = harness
    const executor = fixture.newExecutor()
    const ended = await harness.launchRunning({}, executor)
    const foreign = await harness.launchRunning({}, executor)
    for (const task of [ended, foreign]) {
      task.stop("shutdown")
      await task.result
    }
    const followed = await harness.launchRunning({}, executor)
    const asked: string[][] = []
    const sweep = () =>
      executor.sweep(async (work) => {
        asked.push(work.map(({ attemptId }) => attemptId).toSorted())
        return new Set([ended.attemptId])
      })
    await sweep()
    expect([asked, cluster.jobs().length]).toEqual([[], 3])
    await sweep()
    expect(asked).toEqual([[ended.attemptId, foreign.attemptId].toSorted()])
    await soon(() => cluster.jobs().length === 2)
    expect(cluster.jobs().map(({ metadata }) => metadata.name)).toEqual([foreign.job, followed.job])
  })
  test("a job that cannot be deleted keeps no other from being deleted, and is deleted by a later sweep", async () => {
    const { cluster, fixture } = harness
    const executor = fixture.newExecutor()
    const tasks = [await harness.launchRunning({}, executor), await harness.launchRunning({}, executor)]
    for (const task of tasks) {
      task.stop("shutdown")
      await task.result
    }
    const sweep = () => executor.sweep(async (work) => new Set(work.map(({ attemptId }) => attemptId)))
    await sweep()
    cluster.faults = [{ on: "DELETE jobs", times: 1, response: FORBIDDEN }]
    await expect(sweep()).rejects.toThrow(/job ork-.*cannot do that/)
    await soon(() => cluster.jobs().length === 1)
    await sweep()
    await soon(() => cluster.jobs().length === 0)
  })

  test("the jobs of an earlier process are deleted in all of its namespaces, without a new task", async () => {
    const { cluster, fixture } = harness
    const earlier = fixture.newExecutor()
    const task = harness.launch({ fields: { kubernetes: { namespace: "other" } } }, earlier)
    await soon(() => cluster.storage.list("jobs", "other").length === 1)
    task.stop("shutdown")
    await task.result
    await earlier.stop()
    const executor = fixture.newExecutor()
    const sweep = () => executor.sweep(async (work) => new Set(work.map(({ attemptId }) => attemptId)))
    await sweep()
    expect(cluster.count("DELETE jobs")).toBe(0)
    await sweep()
    expect(cluster.count("DELETE jobs")).toBe(1)
    expect(existsSync(join(fixture.folder, "kubernetes"))).toBe(true)
    for (const job of cluster.storage.list("jobs", "other")) cluster.storage.delete("jobs", job)
    await sweep()
    expect(existsSync(join(fixture.folder, "kubernetes"))).toBe(false)
  })
})
