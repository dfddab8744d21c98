import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { beforeEach, describe, expect, test } from "vitest"
import type { AttemptResult } from "../../core/model/change.ts"
import { iso } from "../../core/model/ports.ts"
import { MemoryObjectStore } from "../../objects/testing/memory.ts"
import { type ExecSpec, execSpec, type ExecStatus } from "../../protocol/wire/exec-files.ts"
import { AttemptRunner, StopSignal } from "../../engine/attempts/attempt-runner.ts"
import { assignment } from "../conformance/fixture.ts"
import type { Overrides } from "../conformance/fixture.ts"
import { ManualClock } from "../conformance/manual-clock.ts"
import type { Assignment, LaunchContext } from "../executor.ts"
import { type ContainerEnd, watchExec, writeSpec } from "./exec.ts"

let objects: MemoryObjectStore
let clock: ManualClock

beforeEach(() => {
  objects = new MemoryObjectStore()
  clock = new ManualClock()
})

const STATUS: ExecStatus = {
  version: 1,
  status: "running",
  beat: 1,
  heartbeat_at: "2026-01-01T00:00:00.000Z",
  started_at: "2026-01-01T00:00:00.000Z",
  finished_at: null,
  external_id: "42",
  progress: null,
  error: null,
  exit_code: null,
  output_bytes: null,
  usage: {},
  retryable: null,
  retry_after_ms: null,
}

const setup = (overrides: Overrides = {}, extra: { containerEnd?: Promise<ContainerEnd>; externalId?: string } = {}) => {
  const work = assignment("/", { shell: "true" }, overrides)
  const stop = new AbortController()
  const reported: unknown[] = []
  let result: AttemptResult | null = null
  const context = {
    signal: stop.signal,
    started: (info: object) => void reported.push(info),
    progress: (update: object) => void reported.push(update),
  }
  void watchExec({ objects, clock, assignment: work, context, ...extra }).then((end) => (result = end))
  return {
    work,
    stop,
    reported,
    result: () => result,
    writeStatus: (status: Partial<ExecStatus>) =>
      objects.put(`${work.prefix}status.json`, JSON.stringify({ ...STATUS, ...status })),
  }
}

describe("the spec", () => {
  test("contains everything but secrets, which are passed in the environment", async () => {
    const work = assignment(
      "/",
      { shell: "echo $TOKEN" },
      { env: { TOKEN: "hunter2", URL: "https://u:hunter2@x", PLAIN: "yes" }, secrets: ["hunter2"], input: { a: 1 } },
    )
    const { key, environment } = await writeSpec(objects, work, { store: "s3://bucket/ork" })
    expect(key).toBe(`${work.prefix}spec.json`)
    expect(environment).toEqual({
      TASK_SPEC_PATH: key,
      ORK_OBJECT_STORE: "s3://bucket/ork",
      ORK_EXEC_SECRET_TOKEN: "hunter2",
      ORK_EXEC_SECRET_URL: "https://u:hunter2@x",
    })
    const text = Buffer.from((await objects.get(key))!).toString()
    expect(text).not.toContain("hunter2")
    expect(execSpec.parse(JSON.parse(text))).toMatchObject({
      env: { PLAIN: "yes" },
      secret_env: ["TOKEN", "URL"],
      input: { a: 1 },
      command: { shell: "echo $TOKEN" },
      executor: "process",
      working_dir: null,
    })
  })

  test("names a folder as object store by its absolute path, whatever folder the container starts in", async () => {
    const { environment } = await writeSpec(new MemoryObjectStore(), assignment("/", null), { store: "file:.ork/objects" })
    expect(environment["ORK_OBJECT_STORE"]).toBe(`file:${resolve(".ork/objects")}`)
    const bucket = await writeSpec(new MemoryObjectStore(), assignment("/", null), { store: "s3://bucket/x" })
    expect(bucket.environment["ORK_OBJECT_STORE"]).toBe("s3://bucket/x")
  })

  test("refers to large outputs of upstream tasks, which are stored once per folder: another attempt's are another object", async () => {
    const root = await mkdtemp(join(tmpdir(), "ork-upstream-"))
    const specs: ExecSpec[] = []
    for (const name of ["old", "new", "new"]) {
      const upstreamDir = join(root, name)
      await mkdir(upstreamDir, { recursive: true })
      await writeFile(join(upstreamDir, "load.json"), JSON.stringify(name))
      const attemptId = String(specs.length)
      const { key } = await writeSpec(objects, assignment("/", { shell: "true" }, { attemptId, upstreamDir }))
      specs.push(execSpec.parse(JSON.parse(Buffer.from((await objects.get(key))!).toString())))
    }
    const load = (name: string) => ({ load: `../../.upstream/${name}/load.json` })
    expect(specs.map(({ upstream }) => upstream)).toEqual([load("old"), load("new"), load("new")])
    const stored = (name: string) => objects.objects.get(`runs/run-1/.upstream/${name}/load.json`)?.toString()
    expect([stored("old"), stored("new")]).toEqual(['"old"', '"new"'])
    expect(objects.objects.size).toBe(5)
    await rm(root, { recursive: true })
  })
})

describe("watching", () => {
  test("start, progress and success are reported as by any executor", async () => {
    const one = setup()
    await one.writeStatus({ progress: { fraction: 0.5, details: "half" } })
    await clock.pass(1000)
    expect(one.reported).toEqual([
      { at: Date.parse(STATUS.started_at!), externalId: "42" },
      { fraction: 0.5, details: "half" },
    ])
    await objects.put(`${one.work.prefix}output.json`, '{"rows":3}')
    await one.writeStatus({
      status: "success",
      finished_at: iso(clock.now()),
      output_bytes: 10,
      exit_code: 0,
      usage: { maxRssBytes: 5 },
    })
    await clock.pass(2000)
    expect(one.result()).toMatchObject({
      state: "success",
      output: { inline: { rows: 3 } },
      exitCode: 0,
      usage: { maxRssBytes: 5 },
      externalId: "42",
    })
    expect(clock.waiting).toBe(0)
  })

  test("a large output stays an object", async () => {
    const one = setup({}, { externalId: "pod-1" })
    await one.writeStatus({ status: "success", finished_at: iso(clock.now()), output_bytes: 100_000 })
    await clock.pass(1000)
    expect(one.result()).toMatchObject({
      output: { key: `${one.work.prefix}output.json`, bytes: 100_000 },
      externalId: "pod-1",
    })
  })

  test("a failure has its exit code, its error and whether it may be retried", async () => {
    const one = setup()
    await one.writeStatus({
      status: "failed",
      finished_at: iso(clock.now()),
      error: "exit code 3",
      exit_code: 3,
      retryable: false,
    })
    await clock.pass(1000)
    expect(one.result()).toMatchObject({ state: "failed", error: "exit code 3", exitCode: 3, retryable: false })
  })

  test("an attempt without a new heartbeat for 60 s is lost; one with heartbeats is not", async () => {
    const dead = setup()
    const live = setup()
    await dead.writeStatus({})
    for (let beat = 1; beat <= 9; beat++) {
      await live.writeStatus({ beat })
      await clock.pass(7500)
      if (beat === 7) expect(dead.result()).toBeNull()
    }
    expect(dead.result()).toMatchObject({ state: "lost", error: expect.stringContaining("no heartbeat for 60 s") as string })
    expect(live.result()).toBeNull()
  })

  test("no attempt is lost while the object store cannot be read", async () => {
    const one = setup()
    await one.writeStatus({})
    await clock.pass(1000)
    const { get } = objects
    objects.get = () => Promise.reject(new Error("no route"))
    await clock.pass(300_000)
    expect(one.result()).toBeNull()
    objects.get = get
    await clock.pass(50_000)
    expect(one.result()).toBeNull()
    await clock.pass(20_000)
    expect(one.result()).toMatchObject({ state: "lost" })
  })

  test("the end of the container counts only when no result was written", async () => {
    const early = Promise.withResolvers<ContainerEnd>()
    const silent = setup({}, { containerEnd: early.promise })
    await silent.writeStatus({})
    await clock.pass(1000)
    early.resolve({ state: "failed", error: "killed: out of memory", exitCode: 137 })
    await clock.pass(0)
    expect(silent.result()).toMatchObject({ state: "failed", error: "killed: out of memory", exitCode: 137 })

    const late = Promise.withResolvers<ContainerEnd>()
    const written = setup({}, { containerEnd: late.promise })
    await written.writeStatus({ status: "success", finished_at: iso(clock.now()) })
    late.resolve({ state: "failed", error: "gone" })
    await clock.pass(0)
    expect(written.result()).toMatchObject({ state: "success", output: { inline: null } })
  })

  test("a stopped attempt ends with the reason of the stop, unless it succeeded", async () => {
    const cancelled = setup()
    cancelled.stop.abort("cancel")
    await cancelled.writeStatus({ status: "lost", finished_at: iso(clock.now()), error: "stopped by a signal" })
    const done = setup()
    done.stop.abort("cancel")
    await done.writeStatus({ status: "success", finished_at: iso(clock.now()) })
    await clock.pass(2000)
    expect(cancelled.result()).toMatchObject({ state: "cancelled" })
    expect(done.result()).toMatchObject({ state: "success" })
  })

  test("an attempt that is stopped before it started ends after the grace period and 30 s", async () => {
    const one = setup({ graceMs: 10_000 })
    one.stop.abort("timeout")
    await clock.pass(39_000)
    expect(one.result()).toBeNull()
    await clock.pass(2000)
    expect(one.result()).toMatchObject({ state: "timeout", startedAt: null })
    expect(clock.waiting).toBe(0)
  })

  test("an attempt that never starts runs into start_timeout", async () => {
    const work = assignment("/", { shell: "true" }, { graceMs: 0, node: { startTimeoutMs: 300_000 } })
    const executor = {
      name: "process",
      launch: (work: Assignment, context: LaunchContext) => {
        const containerEnd = new Promise<ContainerEnd>((resolve) =>
          context.signal.addEventListener("abort", () => resolve({ state: "failed", error: "removed" })),
        )
        return watchExec({ objects, clock, assignment: work, context, containerEnd })
      },
    }
    const runner = new AttemptRunner({ executors: new Map([["process", executor]]), clock })
    let result: AttemptResult | null = null
    void runner.run(work, new StopSignal(), { started: () => {}, progress: () => {} }).then((end) => (result = end))
    await clock.pass(299_000)
    expect(result).toBeNull()
    await clock.pass(2000)
    expect(result).toMatchObject({ state: "timeout", error: "did not start within 5m", startedAt: null })
  })

  test("an invalid status fails the attempt", async () => {
    const one = setup()
    await objects.put(`${one.work.prefix}status.json`, '{"status":"odd"}')
    await clock.pass(1000)
    expect(one.result()).toMatchObject({
      state: "failed",
      error: expect.stringContaining("its status.json is not valid") as string,
    })
  })

  test("many attempts share one timer, and are read less and less often", async () => {
    let reads = 0
    const { get } = objects
    objects.get = (key) => {
      reads += 1
      return get.call(objects, key)
    }
    const all = Array.from({ length: 300 }, () => setup())
    expect(clock.waiting).toBe(1)
    await clock.pass(60_000)
    expect(reads / all.length).toBeLessThan(18)
    expect(clock.waiting).toBe(1)
    for (const one of all) await one.writeStatus({ status: "success", finished_at: iso(clock.now()) })
    await clock.pass(6000)
    expect(all.every((one) => one.result()?.state === "success")).toBe(true)
    expect(clock.waiting).toBe(0)
  })
})
