// Faults of the cluster, injected into the fake one.

import { describe, expect, test } from "vitest"
import { allLines } from "../conformance/fixture.ts"
import { TestHarness, contains, soon } from "./testing/test-harness.ts"
import { fastClock } from "./testing/fixture.ts"

const harness = new TestHarness()
const { shell } = harness

describe("requests", () => {
  test("a request is retried after Retry-After, or after a pause when the server failed", async () => {
    const { cluster } = harness
    cluster.faults = [
      { on: "POST jobs", times: 1, response: { status: 429, retryAfter: 20 } },
      { on: "POST jobs", times: 1, response: { status: 500 } },
      { on: "POST jobs", times: 1, response: { status: 503 } },
    ]
    const began = fastClock.now()
    expect(await shell("echo '[1]'").result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(fastClock.now() - began).toBeGreaterThan(20_000)
    expect(cluster.count("POST jobs")).toBe(4)
    expect(cluster.jobs()).toHaveLength(1)
  })

  test.each([0, -5])("a Retry-After of %i does not remove the pauses", async (retryAfter) => {
    harness.cluster.faults = [{ on: "POST jobs", times: 6, response: { status: 429, retryAfter } }]
    const began = fastClock.now()
    expect(await shell("true").result).toMatchObject({ state: "success" })
    expect(fastClock.now() - began).toBeGreaterThan(10_000)
  })

  test("a request that keeps failing is repeated until the start timeout, which names the error", async () => {
    const { cluster } = harness
    cluster.faults = [{ on: "POST jobs", times: 100, response: { status: 500, message: "etcdserver: leader changed" } }]
    const task = harness.launch()
    await soon(() => cluster.count("POST jobs") > 8)
    task.stop("timeout")
    expect(await task.result).toMatchObject({ state: "timeout", waitedFor: "etcdserver: leader changed" })
    expect(cluster.jobs()).toEqual([])
  })

  test("when the response to a create is lost, the job is found and not created twice", async () => {
    const { cluster } = harness
    cluster.faults = [{ on: "POST jobs", times: 1, response: "lose" }]
    expect(await shell("echo '[1]'").result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(cluster.controllers.kubelet.starts).toHaveLength(1)
  })

  test("422 fails the attempt with the cluster's message and without a retry", async () => {
    harness.cluster.faults = [{ on: "POST jobs", times: 9, response: { status: 422, reason: "Invalid", message: "no" } }]
    const end = await shell("true").result
    expect(end).toMatchObject({ state: "failed", retryable: false, error: "could not create the job: no" })
    expect(harness.cluster.count("POST jobs")).toBe(1)
  })

  test("401 fails the attempt with advice, and may be retried", async () => {
    harness.cluster.faults = [{ on: "POST jobs", times: 99, response: { status: 401, message: "Unauthorized" } }]
    const end = await shell("true").result
    expect(end).toMatchObject({ state: "failed", error: contains("the cluster rejects Ork's credentials (401 Unauthorized)") })
    expect(end.retryable).toBeUndefined()
  })

  test("unknown fields are rejected with the cluster's message", async () => {
    const kubernetes = { volumes: [{ name: "x", emptyDirr: {} }] }
    const end = await shell("true", { fields: { kubernetes } }).result
    expect(end).toMatchObject({ state: "failed", retryable: false, error: contains("emptyDirr is not a field of V1Volume") })
  })

  test("a command and variables that are too large fail the attempt before any request", async () => {
    const env = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`V${i}`, "x".repeat(100_000)]))
    const end = await shell("true", { env }).result
    expect(end).toMatchObject({ state: "failed", retryable: false, error: contains("pass large values as input instead") })
    expect(harness.cluster.count("POST jobs")).toBe(0)
  })

  test("an input with large upstream outputs fails the attempt before any request", async () => {
    const end = await shell("true", { inputFiles: ["load"], upstreamDir: "/nowhere" }).result
    expect(end).toMatchObject({
      state: "failed",
      retryable: false,
      error: contains("pass an address instead, or use kubernetes.exec"),
    })
    expect(harness.cluster.count("POST jobs")).toBe(0)
  })

  test("missing rights for the watch fail tasks before a job is created", async () => {
    const message = 'pods is forbidden: User "ork" cannot list resource "pods"'
    harness.cluster.faults = [{ on: "LIST pods", times: 99, response: { status: 403, reason: "Forbidden", message } }]
    expect(await shell("true").result).toMatchObject({ state: "failed", retryable: false, error: contains(message) })
    expect(harness.cluster.count("POST jobs")).toBe(0)
  })
})

describe("watches", () => {
  test("a broken watch is resumed at its version, without a new list", async () => {
    const task = await harness.launchRunning()
    harness.cluster.watches.drop()
    task.go()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(harness.cluster.count("LIST pods")).toBe(1)
    expect(harness.cluster.count("WATCH pods")).toBeGreaterThan(1)
  })

  test("a version that the server has forgotten (410) causes a new list, and nothing is missed", async () => {
    const task = await harness.launchRunning()
    await harness.finishUnseen(task)
    harness.cluster.watches.expire()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(harness.cluster.count("LIST pods")).toBe(2)
  })

  test("410 as the response to a watch causes a new list too", async () => {
    const task = await harness.launchRunning()
    await harness.finishUnseen(task)
    harness.cluster.storage.forget()
    harness.cluster.watches.drop()
    expect(await task.result).toMatchObject({ state: "success" })
    expect(harness.cluster.count("LIST pods")).toBe(2)
  })

  test("a watch is resumed from the last bookmark", async () => {
    const { cluster } = harness
    const task = await harness.launchRunning()
    cluster.watches.bookmark()
    cluster.storage.forget()
    await new Promise((resolve) => setImmediate(resolve))
    cluster.watches.bookmark()
    cluster.watches.drop()
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
    expect(cluster.count("LIST pods")).toBe(1)
  })

  test("the failure of a watch is logged once, and its recovery too", async () => {
    const task = await harness.launchRunning()
    harness.cluster.faults = [{ on: "WATCH pods", times: 3, response: { status: 500 } }]
    harness.cluster.watches.drop()
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
    expect(harness.fixture.logged).toEqual(["failed to watch the cluster; trying again", "watching the cluster again"])
    expect(harness.cluster.count("LIST pods")).toBe(1)
  })

  test("a version that is rejected several times causes a new list", async () => {
    const task = await harness.launchRunning()
    harness.cluster.faults = [{ on: "WATCH pods", times: 99, response: { status: 504, message: "Too large resource version" } }]
    harness.cluster.watches.drop()
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
    expect(harness.cluster.count("LIST pods")).toBeGreaterThan(1)
  })

  test("a list that expires between two pages starts again", async () => {
    const { cluster } = harness
    const labels = { "app.kubernetes.io/managed-by": "ork", "ork.dev/attempt": "other" }
    for (let i = 0; i < 600; i++)
      cluster.storage.add("jobs", "work", { metadata: { name: `ork-${i}`, labels }, status: { startTime: "" } })
    cluster.faults = [{ on: "CONTINUE jobs", times: 1, response: { status: 410, reason: "Expired" } }]
    expect(await shell("echo '[1]'").result).toMatchObject({ state: "success" })
    expect([cluster.count("LIST jobs"), cluster.count("CONTINUE jobs"), cluster.count("WATCH jobs")]).toEqual([2, 2, 1])
  })

  test("repeated events and events in the wrong order do no harm", async () => {
    harness.cluster.watches.unruly = true
    const all = Array.from({ length: 8 }, (_, i) => shell(`echo '[${i}]'; exit ${i % 2}`))
    const ends = await Promise.all(all.map(({ result }) => result))
    expect(ends.map(({ exitCode }) => exitCode)).toEqual([0, 1, 0, 1, 0, 1, 0, 1])
  })

  test("a task whose job disappeared unwatched is lost", async () => {
    const { cluster, controllers } = harness
    const task = await harness.launchRunning()
    cluster.watches.mute = true
    controllers.delete("jobs", task.job, "Foreground")
    await soon(() => controllers.job(task.job) === undefined)
    cluster.watches.mute = false
    cluster.watches.expire()
    expect(await task.result).toMatchObject({ state: "lost", error: contains("its job was gone before its end was seen") })
  })
})

describe("logs", () => {
  test("a log whose connection breaks several times is complete", async () => {
    const { cluster } = harness
    cluster.logs.breaks = [5, 40, 41, 100, 333, 1000, 2000]
    const { result, log } = shell("i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); done; printf 'no end'")
    expect((await result).state).toBe("success")
    const lines = (await allLines(log)).map(({ line }) => line)
    expect(lines).toEqual([...Array.from({ length: 60 }, (_, i) => `line ${i}`), "no end"])
    expect(cluster.count("LOG pods")).toBe(8)
  })

  test("the log of a task that is silent for longer than the response limit takes one request", async () => {
    const executor = harness.fixture.newExecutor({ responseMs: 300 })
    const { result } = shell("sleep 1; echo '[1]'", {}, executor)
    expect(await result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(harness.cluster.count("LOG pods")).toBe(1)
  })

  test("the message of a kubelet that cannot follow a log is not stored, and does not end the log", async () => {
    harness.cluster.logs.messages = Array(2).fill("failed to create fsnotify watcher: too many open files")
    const task = await harness.launchRunning()
    await soon(() => harness.cluster.count("LOG pods") === 3)
    task.go()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect((await allLines(task.log)).map(({ line }) => line)).toEqual(["up", "[1]"])
  })

  test("a silently dead connection is replaced when the container has ended", async () => {
    harness.cluster.logs.dead = 1
    const task = harness.launch()
    await task.started
    await soon(() => harness.cluster.count("LOG pods") === 1)
    task.go()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect((await allLines(task.log)).map(({ line }) => line)).toEqual(["up", "[1]"])
  })

  test("a success whose log cannot be read fails, because its output is not known", async () => {
    harness.cluster.faults = [{ on: "LOG pods", times: 99, response: { status: 500 } }]
    expect(await shell("echo '[1]'").result).toMatchObject({ state: "failed", error: contains("its log could not be read") })
  })
})
