// What a cluster may do wrong, on the fake one.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest"
import { allLines, uniqueId } from "../conformance/fixture.ts"
import { fakeFixture, fastClock, type FakeFixture } from "./testing/fixture.ts"
import { workOn } from "./testing/suite.ts"

let fixture: FakeFixture
const { shell } = workOn(() => fixture)
const contains = (text: string): string => expect.stringContaining(text) as string

beforeEach(async () => {
  fixture = await fakeFixture()
  onTestFinished(() => fixture.cleanup())
})

/** A task that waits for a file; `go` makes it. */
const waiting = (more: Parameters<typeof shell>[1] = {}) => {
  const flag = join(fixture.folder, uniqueId())
  const attemptId = `t${uniqueId()}`
  const launched = shell(`echo up; while [ ! -e ${flag} ]; do sleep 0.02; done; echo '[1]'`, { attemptId, ...more })
  return { ...launched, attemptId, job: `ork-${attemptId}`, go: () => writeFileSync(flag, "") }
}

describe("requests", () => {
  test("a busy server is asked again when it says, and a broken one after a pause", async () => {
    const { cluster } = fixture
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
    fixture.cluster.faults = [{ on: "POST jobs", times: 100, answer: { status: 500, message: "etcdserver: leader changed" } }]
    const end = await shell("true").result
    expect(end).toMatchObject({ state: "failed", error: "could not create the job: etcdserver: leader changed" })
    expect(end.retryable).toBeUndefined()
    expect(fixture.cluster.count("POST jobs")).toBe(8)
  })

  test("when the answer to a create is lost, the job is found and not made twice", async () => {
    const { cluster } = fixture
    cluster.faults = [{ on: "POST jobs", times: 1, answer: "lose" }]
    expect(await shell("echo '[1]'").result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(cluster.controllers.starts).toHaveLength(1)
  })

  test.each([
    [403, "Forbidden", "the cluster does not allow it: no (the rights that Ork needs are in deploy/kubernetes/rbac.yaml)"],
    [401, "Unauthorized", "the cluster does not know who asks (401 no)"],
    [422, "Invalid", "no"],
  ])("%i is told in words and not tried again", async (status, reason, words) => {
    fixture.cluster.faults = [{ on: "POST jobs", times: 9, answer: { status, reason, message: "no" } }]
    const end = await shell("true").result
    expect(end).toMatchObject({ state: "failed", retryable: false, error: contains(`could not create the job: ${words}`) })
    expect(fixture.cluster.count("POST jobs")).toBe(1)
  })

  test("a quota that is used up is a matter of time", async () => {
    const message = 'jobs.batch "x" is forbidden: exceeded quota: count'
    fixture.cluster.faults = [{ on: "POST jobs", times: 9, answer: { status: 403, message } }]
    const end = await shell("true").result
    expect(end).toMatchObject({ state: "failed", error: contains("exceeded quota") })
    expect(end.retryable).toBeUndefined()
  })

  test("fields that the cluster does not know are refused with its words", async () => {
    const kubernetes = { volumes: [{ name: "x", emptyDirr: {} }] }
    const end = await shell("true", { fields: { kubernetes } }).result
    expect(end).toMatchObject({ state: "failed", retryable: false, error: contains("emptyDirr is no field of V1Volume") })
  })

  test("rights that are missing for the watch fail tasks at once, before a job is made", async () => {
    const message = 'pods is forbidden: User "ork" cannot list resource "pods"'
    fixture.cluster.faults = [{ on: "LIST pods", times: 99, answer: { status: 403, reason: "Forbidden", message } }]
    expect(await shell("true").result).toMatchObject({ state: "failed", retryable: false, error: contains(message) })
    expect(fixture.cluster.count("POST jobs")).toBe(0)
  })

  test("a cluster that is away fails tasks in bounded time, and later ones run", async () => {
    const { cluster } = fixture
    cluster.faults = [
      { on: "LIST pods", times: 5, answer: "drop" },
      { on: "LIST jobs", times: 5, answer: "drop" },
    ]
    expect(await shell("true").result).toMatchObject({ state: "failed", error: contains("the cluster cannot be reached") })
    await vi.waitUntil(() => cluster.count("WATCH pods") > 0 && cluster.count("WATCH jobs") > 0, { timeout: 10_000 })
    expect((await shell("true").result).state).toBe("success")
    expect(fixture.told).toContain("cannot follow what the cluster does; trying again")
  })
})

describe("watches", () => {
  test("a watch that breaks is resumed where it was, without a new list", async () => {
    const { cluster } = fixture
    const task = waiting()
    await task.line("up")
    cluster.dropWatches()
    task.go()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(cluster.count("LIST pods")).toBe(1)
    expect(cluster.count("WATCH pods")).toBeGreaterThan(1)
  })

  test("a version that the server has forgotten (410) means a new list, and nothing is missed", async () => {
    const { cluster } = fixture
    const task = waiting()
    await task.line("up")
    cluster.mute = true
    task.go()
    await vi.waitUntil(() => cluster.controllers.podOf(task.job)?.status?.["phase"] === "Succeeded")
    cluster.mute = false
    cluster.expireWatches()
    expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(cluster.count("LIST pods")).toBe(2)
  })

  test("410 as the answer to a watch means the same", async () => {
    const { cluster } = fixture
    const task = waiting()
    await task.line("up")
    cluster.mute = true
    task.go()
    await vi.waitUntil(() => cluster.controllers.podOf(task.job)?.status?.["phase"] === "Succeeded")
    cluster.mute = false
    cluster.storage.forget()
    cluster.dropWatches()
    expect(await task.result).toMatchObject({ state: "success" })
  })

  test("after a bookmark a watch goes on from there", async () => {
    const { cluster } = fixture
    const task = waiting()
    await task.line("up")
    cluster.bookmark()
    cluster.storage.forget()
    await new Promise((resolve) => setImmediate(resolve))
    cluster.bookmark()
    cluster.dropWatches()
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
    expect(cluster.count("LIST pods")).toBe(1)
  })

  test("errors of a watch are told once, and its return", async () => {
    const { cluster } = fixture
    const task = waiting()
    await task.line("up")
    cluster.faults = [{ on: "WATCH pods", times: 6, answer: { status: 500 } }]
    cluster.dropWatches()
    task.go()
    expect(await task.result).toMatchObject({ state: "success" })
    expect(fixture.told).toEqual(["cannot follow what the cluster does; trying again", "following the cluster again"])
  })

  test("events that come twice and in the wrong order change nothing", async () => {
    fixture.cluster.unruly = true
    const all = Array.from({ length: 8 }, (_, i) => shell(`echo '[${i}]'; exit ${i % 2}`))
    const ends = await Promise.all(all.map(({ result }) => result))
    expect(ends.map(({ exitCode }) => exitCode)).toEqual([0, 1, 0, 1, 0, 1, 0, 1])
  })

  test("a job that went while nobody looked is lost", async () => {
    const { cluster } = fixture
    const task = waiting()
    await task.line("up")
    cluster.mute = true
    const job = cluster.storage.get("jobs", "work", task.job)!
    await cluster.controllers.deleteJob(job, "Foreground")
    cluster.mute = false
    cluster.expireWatches()
    expect(await task.result).toMatchObject({ state: "lost", error: contains("its job was gone before its end was seen") })
  })
})

describe("logs", () => {
  test("a log that breaks off again and again is whole all the same", async () => {
    const { cluster } = fixture
    cluster.logs.breaks = [5, 40, 41, 100, 333, 1000, 2000]
    const { result, log } = shell("i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); done; printf 'no end'")
    expect((await result).state).toBe("success")
    const lines = (await allLines(log)).map(({ line }) => line)
    expect(lines).toEqual([...Array.from({ length: 60 }, (_, i) => `line ${i}`), "no end"])
    expect(cluster.count("LOG pods")).toBe(8)
  })

  test("a success whose log cannot be read has no output that could be trusted", async () => {
    fixture.cluster.faults = [{ on: "LOG pods", times: 99, answer: { status: 500 } }]
    expect(await shell("echo '[1]'").result).toMatchObject({ state: "failed", error: contains("its log could not be read") })
  })
})
