// Runs on a fake that checks every request against the definitions that Google publishes (testing/contract.ts).

import { existsSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, onTestFinished, test, vi } from "vitest"
import { allLines, realClock } from "../conformance/fixture.ts"
import type { LeftoverWork } from "../executor.ts"
import { CloudRunApi } from "./api.ts"
import { messageType, problemOf } from "./testing/contract.ts"
import { type FakeCloudRun, LIST_LOGS } from "./testing/fake-cloud-run.ts"
import { setup } from "./testing/fixture.ts"

const JOB = "projects/acme/locations/europe-west1/jobs/sh"
const cloudRunCalls = (fake: FakeCloudRun): number => fake.calls.length - fake.count(LIST_LOGS)
const text = (part: string): string => expect.stringContaining(part) as string

test("an execution runs with the task's arguments, variables and time limit, and succeeds", async () => {
  const { fake, run } = await setup()
  const running = run('echo "$GREETING $ORK_TASK_NAME $ORK_ATTEMPT_ID"', { env: { GREETING: "hello" }, attemptId: "a1" })
  const { externalId } = await running.started
  expect(await running.result).toMatchObject({ state: "success", output: { inline: null }, externalId })
  expect(externalId).toBe(`${JOB}/executions/sh-00001`)
  expect(fake.executions[0]?.written).toBe("hello task a1\n")
  // The timeout of 60 s, the grace period, and a minute for the server to stop it first.
  expect(fake.executions[0]?.toJSON()).toMatchObject({ taskCount: 1, template: { timeout: "130s" } })
  expect((await allLines(running.log)).map(({ line }) => line)).toEqual(["hello task a1"])
})

test("a failed execution has its exit code, or the signal that killed it", async () => {
  const { run } = await setup()
  expect(await run("exit 7").result).toMatchObject({ state: "failed", exitCode: 7, error: "exit code 7" })
  expect(await run("kill -9 $$").result).toMatchObject({ state: "failed", error: text("killed by SIGKILL") })
})

test.each(["cancel", "timeout"] as const)("a %s cancels the execution, and the attempt ends after it", async (reason) => {
  const { fake, run } = await setup()
  const running = run("sleep 60")
  await running.started
  running.stop(reason)
  expect(await running.result).toMatchObject({ state: reason === "cancel" ? "cancelled" : "timeout" })
  expect(fake.count("Executions.CancelExecution")).toBe(1)
  expect(fake.executions[0]?.over).toBe(true)
})

test("an execution that is stopped before its start never runs", async () => {
  const { fake, run } = await setup()
  fake.hold = true
  const running = run("true")
  await vi.waitUntil(() => fake.executions.length === 1)
  running.stop("cancel")
  expect(await running.result).toMatchObject({ state: "cancelled", startedAt: null })
  expect(fake.executions[0]?.over).toBe(true)
})

test("an execution that never starts reports what it waits for", async () => {
  const { fake, run } = await setup()
  fake.hold = true
  const running = run("true")
  await vi.waitUntil(() => fake.count("Executions.GetExecution") > 2)
  running.stop("timeout")
  expect(await running.result).toMatchObject({
    state: "timeout",
    startedAt: null,
    waitedFor: "Cloud Run: Waiting for execution to complete.",
  })
})

test("an execution that was cancelled from outside has failed", async () => {
  const { fake, run } = await setup()
  const running = run("sleep 60")
  await running.started
  fake.executions[0]?.cancel()
  expect(await running.result).toMatchObject({ state: "failed", error: "its execution was cancelled from outside of Ork" })
})

test("an execution whose job was deleted is lost, and the next attempt fails because the job does not exist", async () => {
  const { fake, run } = await setup()
  const running = run("sleep 60")
  await running.started
  fake.deleteJob("sh")
  expect(await running.result).toMatchObject({ state: "lost", error: text("deleted") })
  expect(await run("true").result).toMatchObject({
    state: "failed",
    retryable: false,
    error: text("there is no job sh in europe-west1 of project acme"),
  })
})

test("missing rights fail the attempt without a retry, and the error names the role", async () => {
  const { fake, run } = await setup()
  fake.fault({ method: "Jobs.RunJob", status: 403, times: 9 })
  expect(await run("true").result).toMatchObject({ state: "failed", retryable: false, error: text("roles/run.developer") })
  expect(fake.executions).toEqual([])
})

test("an execution that may no longer be read is cancelled, and the attempt fails", async () => {
  const { fake, run } = await setup()
  const running = run("sleep 60")
  await running.started
  fake.fault({ method: "Executions.GetExecution", status: 403, times: 1000 })
  expect(await running.result).toMatchObject({
    state: "failed",
    error: text("could not be followed: Google does not allow it"),
  })
  expect(fake.count("Executions.CancelExecution")).toBe(1)
})

test.each([409, 429])("a start that was rejected with %i is sent again, without a search for the execution", async (status) => {
  const { fake, run } = await setup()
  fake.fault({ method: "Jobs.RunJob", status, times: 3 })
  expect(await run("true").result).toMatchObject({ state: "success" })
  expect(fake.count("Jobs.RunJob")).toBe(4)
  expect(fake.count("Executions.ListExecutions")).toBe(0)
})

test("Retry-After delays all calls", async () => {
  const { fake, run } = await setup()
  const other = run("sleep 60")
  await other.started
  fake.fault({ method: "Jobs.RunJob", status: 429, retryAfter: 20 })
  const running = run("true")
  await vi.waitUntil(() => fake.count("Jobs.RunJob") === 3, { timeout: 5000 })
  const calls = fake.calls.filter((call) => call !== LIST_LOGS)
  const repeated = calls.lastIndexOf("Jobs.RunJob")
  // One poll may be on its way when the response arrives.
  expect(repeated - calls.lastIndexOf("Jobs.RunJob", repeated - 1)).toBeLessThanOrEqual(2)
  expect((await running.result).state).toBe("success")
  other.stop("cancel")
  await other.result
})

test("a server that is stopped during Retry-After leaves at once, and starts nothing", async () => {
  const { fake, run } = await setup()
  fake.fault({ method: "Jobs.RunJob", status: 429, retryAfter: 60 })
  const running = run("true")
  await vi.waitUntil(() => fake.calls.length === 1)
  running.stop("shutdown")
  expect(await running.result).toMatchObject({ state: "lost" })
  expect(fake.calls).toEqual(["Jobs.RunJob"])
  expect((await run("true").result).state).toBe("success")
  expect(fake.executions).toHaveLength(1)
})

test.each([
  ["500", 500, true],
  ["503", 503, true],
  ["a broken connection", 0, true],
  ["500 and had no effect", 500, false],
  ["a broken connection and had no effect", 0, false],
])("a start that failed with %s leads to one execution", async (_, status, late) => {
  const { fake, run } = await setup()
  fake.fault({ method: "Jobs.RunJob", status, late, times: late ? 1 : 2 })
  fake.fault({ method: "Executions.ListExecutions", status: 503 })
  expect(await run("exit 3").result).toMatchObject({ state: "failed", exitCode: 3 })
  expect(fake.executions).toHaveLength(1)
})

test("an execution is found when the response does not contain its name", async () => {
  const { fake, run } = await setup()
  fake.fault({ method: "Jobs.RunJob", bare: true })
  expect(await run("true").result).toMatchObject({ state: "success", externalId: `${JOB}/executions/sh-00001` })
  expect(fake.executions).toHaveLength(1)
})

test("an execution survives a time in which the service fails, and a cancel is retried", async () => {
  const { fake, run } = await setup()
  const running = run("sleep 60")
  await running.started
  for (const status of [500, 503, 429, 0]) fake.fault({ method: "Executions.GetExecution", status })
  const before = fake.count("Executions.GetExecution")
  await vi.waitUntil(() => fake.count("Executions.GetExecution") > before + 4, { timeout: 10_000 })
  for (const status of [503, 0]) fake.fault({ method: "Executions.CancelExecution", status })
  running.stop("cancel")
  expect(await running.result).toMatchObject({ state: "cancelled" })
  expect(fake.count("Executions.CancelExecution")).toBe(3)
})

test("a cancel is sent again when Cloud Run does not know the new execution yet", async () => {
  const { fake, run } = await setup()
  const running = run("sleep 60")
  await running.started
  fake.fault({ method: "Executions.CancelExecution", status: 404, times: 2 })
  running.stop("cancel")
  expect(await running.result).toMatchObject({ state: "cancelled", error: "cancelled" })
  expect(fake.count("Executions.CancelExecution")).toBe(3)
  expect(fake.executions[0]?.over).toBe(true)
})

test("the result says when an execution could not be stopped", async () => {
  const { fake, run } = await setup()
  const running = run("sleep 60")
  await running.started
  fake.fault({ method: "Executions.CancelExecution", status: 403, times: 1000 })
  running.stop("cancel")
  expect(await running.result).toMatchObject({
    state: "cancelled",
    error: text("cancelled, but its execution goes on: Google does not allow it"),
  })
})

test("a server with another region continues with the execution where it is", async () => {
  const { fake, run, newExecutor } = await setup()
  const first = run("sleep 60", { attemptId: "a1" })
  await first.started
  first.stop("shutdown")
  await first.result
  const again = run("sleep 60", { attemptId: "a1" }, newExecutor({ region: "us-east1" }))
  expect((await again.started).externalId).toBe(`${JOB}/executions/sh-00001`)
  again.stop("cancel")
  expect(await again.result).toMatchObject({ state: "cancelled" })
  expect(fake.executions[0]?.over).toBe(true)
})

test("an error of the object store fails the start", async () => {
  const { fake, run, objects } = await setup()
  vi.spyOn(objects, "put").mockRejectedValue(new Error("the bucket is unavailable"))
  expect(await run("true").result).toMatchObject({
    state: "failed",
    error: "could not start the execution: the bucket is unavailable",
  })
  expect(fake.calls).toEqual([])
})

test("the time limit is at most that of Cloud Run", async () => {
  const { fake, run } = await setup()
  await run("true", { node: { timeoutMs: 7 * 86_400_000 } }).result
  expect(fake.executions[0]?.toJSON()).toMatchObject({ template: { timeout: "604800s" } })
})

test("an execution outlives its server: the next server continues with it, and it runs once", async () => {
  const { fake, run, newExecutor } = await setup()
  const first = run("echo up; sleep 60", { attemptId: "a1" })
  await first.started
  first.stop("shutdown")
  expect(await first.result).toMatchObject({ state: "lost" })
  const { startedAt } = await first.result
  const again = run("echo up; sleep 60", { attemptId: "a1", adopted: { startedAt } }, newExecutor())
  await again.line("up")
  fake.executions[0]?.kill("SIGKILL")
  expect(await again.result).toMatchObject({ state: "failed", error: text("SIGKILL"), startedAt })
  expect(fake.count("Executions.CancelExecution")).toBe(0)
  expect(fake.executions).toHaveLength(1)
})

test("when a server ends between the request and its response, the next one finds the execution by the attempt id", async () => {
  const { fake, run, newExecutor } = await setup()
  fake.fault({ method: "Jobs.RunJob", status: 0, late: true })
  fake.fault({ method: "Executions.ListExecutions", times: 1000 })
  const first = run("sleep 60", { attemptId: "a1" })
  await vi.waitUntil(() => fake.count("Executions.ListExecutions") > 0)
  first.stop("lost")
  expect(await first.result).toMatchObject({ state: "lost" })
  fake.clearFaults()
  fake.addOthers("sh", 130)
  const again = run("sleep 60", { attemptId: "a1" }, newExecutor())
  await again.started
  again.stop("cancel")
  expect(await again.result).toMatchObject({ state: "cancelled", externalId: `${JOB}/executions/sh-00001` })
  expect(fake.count("Jobs.RunJob")).toBe(1)
})

test("200 executions in flight share their polls", async () => {
  const speed = 20
  const { fake, run } = await setup(speed)
  const all = Array.from({ length: 200 }, () => run("sleep 1"))
  await Promise.all(all.map(({ started }) => started))
  const [lists, gets] = [fake.count("Executions.ListExecutions"), fake.count("Executions.GetExecution")]
  const startedAt = Date.now()
  const results = await Promise.all(all.map(({ result }) => result))
  expect(new Set(results.map(({ state }) => state))).toEqual(new Set(["success"]))
  expect(fake.count("Jobs.RunJob")).toBe(200)
  // Polls are at least 2 s apart by the clock.
  const polls = Math.ceil(((Date.now() - startedAt) * speed) / 2000) + 1
  expect(fake.count("Executions.ListExecutions") - lists).toBeLessThanOrEqual(polls * 3)
  expect(fake.count("Executions.GetExecution") - gets).toBeLessThanOrEqual(polls * 2)
  expect(cloudRunCalls(fake)).toBeLessThan(200 * 3)
}, 60_000)

const exec = { job: "sh", cloudrun: { exec: true } }
test.each([
  ["an invalid name of a job", { fields: { job: "No/Such" } }, 'job: "No/Such" is not the name of a Cloud Run job'],
  ["a string as command", { command: { shell: "echo hi" } }, "its command is a string"],
  ["no command for ork exec", { command: null, fields: exec }, "with cloudrun.exec a task needs a command"],
  ["a secret in a variable", { env: { TOKEN: "hunter2" }, secrets: ["hunter2"] }, "the variable TOKEN contains a secret"],
  [
    "a secret in an argument",
    { command: { argv: ["--token=hunter2"] }, secrets: ["hunter2"] },
    "an argument contains a secret",
  ],
  ["a variable that is too long", { env: { BIG: "x".repeat(200_000) } }, "the environment variable BIG is 200000 bytes long"],
])("%s fails the attempt before any request", async (_, more, error) => {
  const { fake, run } = await setup()
  expect(await run("true", more).result).toMatchObject({ state: "failed", retryable: false, error: text(error) })
  expect(fake.calls).toEqual([])
})

test("a container that the job does not have fails with the message of Cloud Run", async () => {
  const { run } = await setup()
  const end = await run("true", { cloudrun: { container: "sidecar" } }).result
  expect(end).toMatchObject({
    state: "failed",
    retryable: false,
    error: text("Container name sidecar in overrides does not exist. (400)"),
  })
})

test("missing credentials are reported, and do not end the process", async () => {
  vi.stubEnv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/key.json")
  onTestFinished(() => void vi.unstubAllEnvs())
  const api = new CloudRunApi({ clock: realClock, endpoint: "https://127.0.0.1:9" })
  // Unhandled rejections of the client's own promises would fail this file.
  await expect(api.get(`${JOB}/executions/x`)).rejects.toThrow(/Cloud Run cannot be reached: .*\/no\/such\/key\.json/)
  api.close()
})

test("the fake rejects requests that violate the contract", () => {
  const type = messageType("RunJobRequest")
  const problem = (request: object): string | null => problemOf(type, { name: JOB, ...request }, true)
  expect(problem({ overrides: { taskCount: 1, timeout: "3.5s" } })).toBeNull()
  expect(problem({ overrides: { task_count: 1 } })).toContain('Unknown name "task_count"')
  expect(problem({ overrides: { taskCount: "one" } })).toContain("Invalid value (int32)")
  expect(problem({ overrides: { timeout: 3 } })).toContain("not a google.protobuf.Duration")
  expect(problem({ overrides: { containerOverrides: [{ env: [{ value: "1" }] }] } })).toContain("name: required")
})

describe("leftover executions", () => {
  test("an execution that nobody follows is cancelled by the second sweep if its attempt has ended; others stay", async () => {
    const { fake, run, newExecutor, folder } = await setup()
    for (const attemptId of ["ended", "foreign"]) {
      const task = run("sleep 60", { attemptId })
      await task.started
      task.stop("shutdown")
      await task.result
    }
    fake.addOthers("sh", 150)
    const executor = newExecutor()
    const followed = run("sleep 60", { attemptId: "followed" }, executor)
    await followed.started
    const asked: LeftoverWork[][] = []
    const sweep = () =>
      executor.sweep(async (work) => {
        asked.push(work)
        return new Set(["ended"])
      })
    await sweep()
    expect([asked, fake.count("Executions.CancelExecution")]).toEqual([[], 0])
    fake.fault({ method: "Executions.CancelExecution", status: 500 })
    await expect(sweep()).rejects.toThrow("job ork-ended")
    await sweep()
    expect(asked[0]?.map(({ attemptId, runId, taskId }) => [attemptId, runId, taskId])).toEqual([
      ["foreign", "run-1", "task-1"],
      ["ended", "run-1", "task-1"],
    ])
    const own = fake.executions.filter(({ env }) => env.some(({ name }) => name === "ORK_ATTEMPT_ID")).toReversed()
    await vi.waitUntil(() => own[0]?.over === true)
    expect(own.map(({ over }) => over)).toEqual([true, false, false])
    expect(existsSync(join(folder, "cloudrun"))).toBe(true)
  })

  test("a job without executions is not searched again", async () => {
    const { fake, run, newExecutor, folder } = await setup()
    await run("true").result
    const executor = newExecutor()
    const sweep = () => executor.sweep(async () => new Set())
    await sweep()
    expect(existsSync(join(folder, "cloudrun"))).toBe(false)
    const before = fake.calls.length
    await sweep()
    expect(fake.calls.length).toBe(before)
  })
})
