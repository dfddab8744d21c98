// What a cluster may do wrong, on the fake one.

import { describe, expect, test } from "vitest"
import { allLines } from "../conformance/fixture.ts"
import { Bench, contains, soon } from "./testing/test-cluster.ts"
import { fastClock } from "./testing/fixture.ts"

const bench = new Bench()
const { shell } = bench

describe("requests", () => {
  test("a busy server is asked again when it says, and a broken one after a pause", async () => {
    const { cluster } = bench
    cluster.faults = [
      { on: "POST jobs", times: 1, answer: { status: 429, retryAfter: 20 } },
      { on: "POST jobs", times: 1, answer: { status: 500 } },
      { on: "POST jobs", times: 1, answer: { status: 503 } },
    ]
    const began = fastClock.now()
    expect(await shell("echo '[1]'").result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(fastClock.now() - began).toBeGreaterThan(20_000)
    expect(cluster.count("POST jobs")).toBe(4)
    expect(cluster.jobs()).toHaveLength(1)
  })

  test("one that never gets better fails the attempt, which may be tried again", async () => {
    bench.cluster.faults = [{ on: "POST jobs", times: 100, answer: { status: 500, message: "etcdserver: leader changed" } }]
    const end = await shell("true").result
    expect(end).toMatchObject({ state: "failed", error: "could not create the job: etcdserver: leader changed" })
    expect(end.retryable).toBeUndefined()
    expect(bench.cluster.count("POST jobs")).toBe(8)
  })

  test("when the answer to a create is lost, the job is found and not made twice", async () => {
    const { cluster } = bench
    cluster.faults = [{ on: "POST jobs", times: 1, answer: "lose" }]
    expect(await shell("echo '[1]'").result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(cluster.controllers.kubelet.starts).toHaveLength(1)
  })

  test.each([
    [403, "Forbidden", "the cluster does not allow it: no (the rights that Ork needs are in deploy/kubernetes/rbac.yaml)"],
    [422, "Invalid", "no"],
  ])("%i is told in words and not tried again", async (status, reason, words) => {
    bench.cluster.faults = [{ on: "POST jobs", times: 9, answer: { status, reason, message: "no" } }]
    const end = await shell("true").result
    expect(end).toMatchObject({ state: "failed", retryable: false, error: contains(`could not create the job: ${words}`) })
    expect(bench.cluster.count("POST jobs")).toBe(1)
  })

  test("401 is told in words; whoever checks credentials may be back for the next attempt", async () => {
    bench.cluster.faults = [{ on: "POST jobs", times: 9, answer: { status: 401, message: "Unauthorized" } }]
    const end = await shell("true").result
    expect(end).toMatchObject({ state: "failed", error: contains("the cluster rejects Ork's credentials (401 Unauthorized)") })
    expect(end.retryable).toBeUndefined()
  })

  test("a quota that is used up is a matter of time", async () => {
    const message = 'jobs.batch "x" is forbidden: exceeded quota: count'
    bench.cluster.faults = [{ on: "POST jobs", times: 9, answer: { status: 403, message } }]
    const end = await shell("true").result
    expect(end).toMatchObject({ state: "failed", error: contains("exceeded quota") })
    expect(end.retryable).toBeUndefined()
  })

  test("fields that the cluster does not know are refused with its words", async () => {
    const kubernetes = { volumes: [{ name: "x", emptyDirr: {} }] }
    const end = await shell("true", { fields: { kubernetes } }).result
    expect(end).toMatchObject({ state: "failed", retryable: false, error: contains("emptyDirr is no field of V1Volume") })
  })

  test("a command and variables that no cluster would store are refused before it is asked", async () => {
    const env = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`V${i}`, "x".repeat(100_000)]))
    const end = await shell("true", { env }).result
    expect(end).toMatchObject({ state: "failed", retryable: false, error: contains("pass large values as input instead") })
    expect(bench.cluster.count("POST jobs")).toBe(0)
  })

  test("rights that are missing for the watch fail tasks at once, before a job is made", async () => {
    const message = 'pods is forbidden: User "ork" cannot list resource "pods"'
    bench.cluster.faults = [{ on: "LIST pods", times: 99, answer: { status: 403, reason: "Forbidden", message } }]
    expect(await shell("true").result).toMatchObject({ state: "failed", retryable: false, error: contains(message) })
    expect(bench.cluster.count("POST jobs")).toBe(0)
  })

  test("a cluster that is away fails tasks in bounded time, and later ones run", async () => {
    const { cluster } = bench
    cluster.faults = [
      { on: "LIST pods", times: 5, answer: "drop" },
      { on: "LIST jobs", times: 5, answer: "drop" },
    ]
    expect(await shell("true").result).toMatchObject({ state: "failed", error: contains("the cluster cannot be reached") })
    await soon(() => cluster.count("WATCH pods") > 0 && cluster.count("WATCH jobs") > 0)
    expect((await shell("true").result).state).toBe("success")
    expect(bench.fixture.told).toContain("cannot watch the cluster; retrying")
  })
})

describe("watches", () => {
  test("a watch that breaks is resumed where it was, without a new list", async () => {
    const task = await bench.running()
    bench.cluster.watches.drop()
    task.go()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(bench.cluster.count("LIST pods")).toBe(1)
    expect(bench.cluster.count("WATCH pods")).toBeGreaterThan(1)
  })

  test("a version that the server has forgotten (410) means a new list, and nothing is missed", async () => {
    const task = await bench.running()
    await bench.endsUnseen(task)
    bench.cluster.watches.expire()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(bench.cluster.count("LIST pods")).toBe(2)
  })

  test("410 as the answer to a watch means the same", async () => {
    const task = await bench.running()
    await bench.endsUnseen(task)
    bench.cluster.storage.forget()
    bench.cluster.watches.drop()
    expect(await task.result).toMatchObject({ state: "success" })
    expect(bench.cluster.count("LIST pods")).toBe(2)
  })

  test("after a bookmark a watch goes on from there", async () => {
    const { cluster } = bench
    const task = await bench.running()
    cluster.watches.bookmark()
    cluster.storage.forget()
    await new Promise((resolve) => setImmediate(resolve))
    cluster.watches.bookmark()
    cluster.watches.drop()
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
    expect(cluster.count("LIST pods")).toBe(1)
  })

  test("errors of a watch are told once, and its return", async () => {
    const task = await bench.running()
    bench.cluster.faults = [{ on: "WATCH pods", times: 3, answer: { status: 500 } }]
    bench.cluster.watches.drop()
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
    const told = ["cannot watch the cluster; retrying", "watching the cluster again"]
    expect(bench.fixture.told).toEqual(told)
    expect(bench.cluster.count("LIST pods")).toBe(1)
  })

  test("a version that is refused again and again is given up for a new list", async () => {
    const task = await bench.running()
    bench.cluster.faults = [{ on: "WATCH pods", times: 99, answer: { status: 504, message: "Too large resource version" } }]
    bench.cluster.watches.drop()
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
    expect(bench.cluster.count("LIST pods")).toBeGreaterThan(1)
  })

  test("a list in pieces that goes out of date in its middle is begun again", async () => {
    const { cluster } = bench
    const labels = { "app.kubernetes.io/managed-by": "ork", "ork.dev/attempt": "other" }
    for (let i = 0; i < 600; i++)
      cluster.storage.add("jobs", "work", { metadata: { name: `ork-${i}`, labels }, status: { startTime: "" } })
    cluster.faults = [{ on: "CONTINUE jobs", times: 1, answer: { status: 410, reason: "Expired" } }]
    expect(await shell("echo '[1]'").result).toMatchObject({ state: "success" })
    expect([cluster.count("LIST jobs"), cluster.count("CONTINUE jobs"), cluster.count("WATCH jobs")]).toEqual([2, 2, 1])
  })

  test("events that come twice and in the wrong order change nothing", async () => {
    bench.cluster.watches.unruly = true
    const all = Array.from({ length: 8 }, (_, i) => shell(`echo '[${i}]'; exit ${i % 2}`))
    const ends = await Promise.all(all.map(({ result }) => result))
    expect(ends.map(({ exitCode }) => exitCode)).toEqual([0, 1, 0, 1, 0, 1, 0, 1])
  })

  test("a job that went while nobody looked is lost", async () => {
    const { cluster, controllers } = bench
    const task = await bench.running()
    cluster.watches.mute = true
    controllers.delete("jobs", task.job, "Foreground")
    await soon(() => controllers.job(task.job) === undefined)
    cluster.watches.mute = false
    cluster.watches.expire()
    expect(await task.result).toMatchObject({ state: "lost", error: contains("its job was gone before its end was seen") })
  })
})

describe("logs", () => {
  test("a log that breaks off again and again is whole all the same", async () => {
    const { cluster } = bench
    cluster.logs.breaks = [5, 40, 41, 100, 333, 1000, 2000]
    const { result, log } = shell("i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); done; printf 'no end'")
    expect((await result).state).toBe("success")
    const lines = (await allLines(log)).map(({ line }) => line)
    expect(lines).toEqual([...Array.from({ length: 60 }, (_, i) => `line ${i}`), "no end"])
    expect(cluster.count("LOG pods")).toBe(8)
  })

  test("a task that is silent for longer than an answer may take is followed by one request", async () => {
    const executor = bench.fixture.newExecutor({ responseMs: 300 })
    const { result } = shell("sleep 1; echo '[1]'", {}, executor)
    expect(await result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(bench.cluster.count("LOG pods")).toBe(1)
  })

  test("what a kubelet that cannot follow says is no line, and does not end the log", async () => {
    bench.cluster.logs.words = Array(2).fill("failed to create fsnotify watcher: too many open files")
    const task = await bench.running()
    await soon(() => bench.cluster.count("LOG pods") === 3)
    task.go()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect((await allLines(task.log)).map(({ line }) => line)).toEqual(["up", "[1]"])
  })

  test("a connection that died without a word is given up when the container has ended", async () => {
    bench.cluster.logs.dead = 1
    const task = bench.waiting()
    await task.started
    await soon(() => bench.cluster.count("LOG pods") === 1)
    task.go()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect((await allLines(task.log)).map(({ line }) => line)).toEqual(["up", "[1]"])
  })

  test("a success whose log cannot be read has no output that could be trusted", async () => {
    bench.cluster.faults = [{ on: "LOG pods", times: 99, answer: { status: 500 } }]
    expect(await shell("echo '[1]'").result).toMatchObject({ state: "failed", error: contains("its log could not be read") })
  })
})
