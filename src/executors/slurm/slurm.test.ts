// Faults of a cluster, with fakes of its commands; slurm.slow.test.ts runs on a real one.

import { mkdir, mkdtemp, readdir, rm, rmdir, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, onTestFinished, test, vi } from "vitest"
import type { Clock } from "../../core/model/ports.ts"
import { FileObjectStore } from "../../objects/file/file.ts"
import { allLines, assignment, launch, type Launched, type Overrides } from "../conformance/fixture.ts"
import type { LeftoverWork } from "../executor.ts"
import { SlurmExecutor } from "./slurm.ts"
import { FakeSlurm } from "./testing/fake-slurm.ts"

const SPEED = 10
const fastClock: Clock = {
  now: () => Date.now() * SPEED,
  monotonic: () => Date.now() * SPEED,
  after: (ms, fn) => {
    const timer = setTimeout(fn, ms / SPEED)
    return () => clearTimeout(timer)
  },
}

/** The time of day runs backwards, as while it is corrected. */
const backwards: Clock = { ...fastClock, now: () => 1e15 - fastClock.now() }

const setup = async (clock = fastClock) => {
  const folder = await mkdtemp(join(tmpdir(), "ork-slurm-"))
  const slurm = new FakeSlurm()
  const objects = new FileObjectStore(join(folder, "objects"))
  const executors: SlurmExecutor[] = []
  const newExecutor = async (): Promise<SlurmExecutor> => {
    const options = { objects, clock, folder: join(folder, "slurm"), command: "", env: slurm.env }
    const created = new SlurmExecutor(options)
    executors.push(created)
    await created.start()
    return created
  }
  const executor = await newExecutor()
  onTestFinished(async () => {
    for (const one of executors) await one.stop()
    slurm.stop()
    await rm(folder, { recursive: true, force: true })
  })
  const run = (script: string, more: Overrides = {}, by = executor) =>
    launch({ executor: by, objects, folder, cleanup: async () => {} }, assignment(folder, { shell: script }, more))
  return { slurm, run, newExecutor, folder }
}

test("instances become arrays of the size that the cluster allows, and each runs its own task", async () => {
  const { slurm, run, folder } = await setup()
  const all = Array.from({ length: 5 }, (_, i) => run(`echo '[${i}]'`, { parallelCount: 5 }))
  const results = await Promise.all(all.map(({ result }) => result))
  expect(results.map(({ output }) => output)).toEqual(all.map((_, i) => ({ inline: [i] })))
  expect(slurm.calls("sbatch").map((call) => /--array=\S+/.exec(call)?.[0])).toEqual(["--array=0-2", "--array=0-1"])
  expect(await readdir(join(folder, "slurm"), { recursive: true })).toEqual(["attempts"])
})

test("when the response of sbatch is lost, the job is found by its name and not submitted twice", async () => {
  const { slurm, run } = await setup()
  slurm.set("lose", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n")
  expect(await run("echo '[1]'").result).toMatchObject({ state: "success", output: { inline: [1] } })
  expect(slurm.calls("sbatch")).toHaveLength(1)
})

describe("when the response of sbatch is lost and the controller is away for long", () => {
  const submitArray = async (script: string, prepare: (slurm: FakeSlurm) => void = () => {}) => {
    const fixture = await setup()
    const { slurm, run } = fixture
    prepare(slurm)
    slurm.set("down")
    slurm.set("lose", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n")
    return { ...fixture, tasks: Array.from({ length: 3 }, (_, i) => run(script, { parallelIndex: i, parallelCount: 3 })) }
  }

  test("an array that has ended and left the queue is not submitted again", async () => {
    const { slurm, tasks, folder } = await submitArray("echo '[1]'")
    const submission = async (): Promise<string[]> => await readdir(join(folder, "slurm"), { recursive: true }).catch(() => [])
    await vi.waitUntil(async () => (await submission()).filter((path) => path.endsWith("/exit")).length === 3, {
      timeout: 10_000,
    })
    slurm.setState(null)
    slurm.clear("down")
    for (const { result } of tasks) expect(await result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect(slurm.calls("sbatch")).toHaveLength(1)
  })

  test("an array whose first task alone has left the queue is not submitted again", async () => {
    const { slurm, tasks } = await submitArray("true", (fake) => fake.set("hold"))
    await vi.waitUntil(() => slurm.calls("scontrol").length > 2, { timeout: 10_000, interval: 5 })
    slurm.forget("1.0")
    slurm.clear("down")
    await tasks[1]!.started
    slurm.setState("FAILED")
    for (const { result } of tasks) expect((await result).state).not.toBe("success")
    expect(slurm.calls("sbatch")).toHaveLength(1)
  })
})

const FAILED = "sbatch: error: Batch job submission failed:"

test.each([
  ["the controller is unavailable", `${FAILED} Unable to contact slurm controller (connect failure)\n`],
  ["the queue is full", `${FAILED} Slurm temporarily unable to accept job, sleeping and retrying\n`],
  ["the user has too many jobs", `sbatch: error: QOSMaxSubmitJobPerUserLimit ${FAILED} Job violates accounting/QOS policy\n`],
])("a task waits while %s, and is submitted then", async (_, error) => {
  const { slurm, run } = await setup()
  slurm.set("reject", error.repeat(9))
  expect(await run("echo '[1]'").result).toMatchObject({ state: "success", output: { inline: [1] } })
  expect(slurm.calls("sbatch")).toHaveLength(10)
})

test("a start timeout of a task that cannot be submitted names the reason, and leaves nothing behind", async () => {
  const { slurm, run, folder } = await setup()
  slurm.set("reject", `${FAILED} Slurm temporarily unable to accept job\n`.repeat(99))
  const task = run("true")
  await vi.waitUntil(() => slurm.calls("sbatch").length > 2, { timeout: 10_000, interval: 5 })
  task.stop("timeout")
  const waitedFor = expect.stringContaining("temporarily unable to accept job") as string
  expect(await task.result).toMatchObject({ state: "timeout", startedAt: null, waitedFor })
  expect(await readdir(join(folder, "slurm"), { recursive: true })).toEqual(["attempts"])
})

test.each(["scontrol", "squeue"] as const)(
  "a task reports id, state and reason of its job as %s shows them",
  async (command) => {
    const { slurm, run } = await setup()
    if (command === "squeue") slurm.set("json")
    slurm.set("reject", `${FAILED} Slurm temporarily unable to accept job\n`)
    slurm.set("pending", "Resources")
    const { details, ...task } = run("true")
    await vi.waitUntil(() => details.length === 2, { timeout: 10_000, interval: 5 })
    expect(details[0]).toMatch(/^Slurm has not accepted its job yet: .*temporarily unable to accept job/)
    expect(details[1]).toBe("Slurm job 1 is PENDING (Resources)")
    slurm.setState("PENDING Priority")
    await vi.waitUntil(() => details.length === 3, { timeout: 10_000, interval: 5 })
    slurm.setState("RUNNING")
    await task.started
    slurm.setState("FAILED")
    await task.result
    expect(details.slice(2)).toEqual(["Slurm job 1 is PENDING (Priority)", "Slurm job 1 is RUNNING"])
  },
)

test("an instance that is cancelled before its array was accepted is left out of it", async () => {
  const { slurm, run } = await setup()
  slurm.set("reject", `${FAILED} Slurm temporarily unable to accept job\n`.repeat(99))
  const tasks = Array.from({ length: 3 }, (_, i) => run(`echo '[${i}]'`, { parallelIndex: i, parallelCount: 3 }))
  await vi.waitUntil(() => slurm.calls("sbatch").length > 2, { timeout: 10_000, interval: 5 })
  tasks[1]!.stop("cancel")
  expect(await tasks[1]!.result).toMatchObject({ state: "cancelled" })
  slurm.clear("reject")
  expect(await tasks[0]!.result).toMatchObject({ state: "success", output: { inline: [0] } })
  expect(await tasks[2]!.result).toMatchObject({ state: "success", output: { inline: [2] } })
  expect(slurm.calls("sbatch").at(-1)).toContain("--array=0,2")
})

test("a server that stops while the queue is full leaves its tasks to the next one", async () => {
  const { slurm, run, newExecutor } = await setup()
  slurm.set("reject", `${FAILED} Slurm temporarily unable to accept job\n`.repeat(99))
  const first = run("echo '[1]'", { attemptId: "a1" })
  await vi.waitUntil(() => slurm.calls("sbatch").length > 2, { timeout: 10_000, interval: 5 })
  first.stop("shutdown")
  expect(await first.result).toMatchObject({ state: "lost" })
  slurm.clear("reject")
  const again = run("echo '[1]'", { attemptId: "a1", adopted: { startedAt: null } }, await newExecutor())
  expect(await again.result).toMatchObject({ state: "success", output: { inline: [1] } })
})

test("a submission that can never succeed fails the task without a retry", async () => {
  const { slurm, run } = await setup()
  slurm.set("reject", "sbatch: error: invalid partition specified: nope\n")
  expect(await run("true").result).toMatchObject({ state: "failed", retryable: false })
  expect(slurm.calls("sbatch")).toHaveLength(1)
})

test.each([
  ["NODE_FAIL", "lost", "its node failed"],
  ["PREEMPTED", "lost", "preempted by a job of higher priority"],
  ["OUT_OF_MEMORY", "failed", "killed: used more than the memory that the job has"],
  ["CANCELLED", "failed", "its job was cancelled from outside of Ork"],
  [null, "lost", "its job disappeared from the queue"],
] as const)("a job whose state in the queue is %s is %s", async (state, end, error) => {
  const { slurm, run, folder } = await setup()
  slurm.set("hold")
  const running = run("true")
  await running.started
  slurm.setState(state)
  expect(await running.result).toMatchObject({ state: end, error })
  expect(await readdir(join(folder, "slurm"), { recursive: true })).toEqual(["attempts"])
})

test.each(["scontrol", "squeue"] as const)("a job survives a time in which the queue cannot be read by %s", async (command) => {
  const { slurm, run } = await setup()
  if (command === "squeue") slurm.set("json")
  slurm.set("hold")
  const running = run("true")
  await running.started
  slurm.set("down")
  const before = slurm.calls(command).length
  await vi.waitUntil(() => slurm.calls(command).length > before + 7, { timeout: 10_000, interval: 5 })
  slurm.setState("OUT_OF_MEMORY")
  slurm.clear("down")
  expect(await running.result).toMatchObject({ state: "failed", error: expect.stringContaining("memory") as string })
})

test("a job survives a time in which its files cannot be read", async () => {
  const { run, folder } = await setup()
  const flag = join(folder, "go")
  const task = run(`while [ ! -e ${flag} ]; do sleep 0.02; done; echo '[1]'`, { attemptId: "a1" })
  await task.started
  const exit = join(folder, "slurm", "ork-a1", "0", "exit")
  await mkdir(exit)
  await vi.waitUntil(() => task.details.some((text) => JSON.stringify(text).includes("cannot be read")), { timeout: 10_000 })
  await rmdir(exit)
  await writeFile(flag, "")
  expect(await task.result).toMatchObject({ state: "success", output: { inline: [1] } })
})

test("squeue is read again after an outage of the controller", async () => {
  const { slurm, run } = await setup()
  slurm.set("json")
  const running = run("while [ ! -e go ]; do sleep 0.02; done")
  await running.started
  slurm.set("down")
  const before = slurm.calls("squeue").length
  await vi.waitUntil(() => slurm.calls("squeue").length > before + 3, { timeout: 10_000, interval: 5 })
  slurm.clear("down")
  expect((await run("touch go").result).state).toBe("success")
  expect((await running.result).state).toBe("success")
  expect(slurm.calls("scontrol")).toEqual(["show config"])
})

test("a job that disappears from the queue is cancelled before it counts as lost", async () => {
  const { slurm, run } = await setup()
  slurm.set("hold")
  const running = run("true", { attemptId: "a1" })
  await running.started
  slurm.setState(null)
  expect(await running.result).toMatchObject({ state: "lost" })
  expect(slurm.calls("scancel")).toEqual(["--name=ork-a1 1"])
})

test("a job that disappears is lost also while the clock is set back", async () => {
  const { slurm, run } = await setup(backwards)
  slurm.set("hold")
  const running = run("true")
  await running.started
  slurm.setState(null)
  expect(await running.result).toMatchObject({ state: "lost" })
})

test("a cancel during an outage of the controller is repeated until the job has ended", async () => {
  const { slurm, run } = await setup()
  slurm.set("hold")
  const running = run("true", { graceMs: 100 })
  await running.started
  slurm.set("down")
  running.stop("cancel")
  await vi.waitUntil(() => slurm.calls("scancel").length > 0, { timeout: 10_000, interval: 5 })
  const before = slurm.calls("scontrol").length
  await vi.waitUntil(() => slurm.calls("scontrol").length > before + 9, { timeout: 20_000, interval: 5 })
  slurm.clear("down")
  expect(await running.result).toMatchObject({ state: "cancelled" })
  // The job may have ended after the first of the two calls.
  expect(["--batch --signal=KILL 1", "1"]).toContain(slurm.calls("scancel").at(-1))
})

test("an adopted job that waits in the queue is cancelled, although the controller was away at the time of the cancel", async () => {
  const { slurm, run, newExecutor } = await setup()
  slurm.set("hold")
  const first = run("true", { attemptId: "a1" })
  await first.started
  first.stop("shutdown")
  await first.result
  slurm.set("down")
  const again = run("true", { attemptId: "a1", graceMs: 100, adopted: { startedAt: null } }, await newExecutor())
  const before = slurm.calls("scontrol").length
  await vi.waitUntil(() => slurm.calls("scontrol").length > before, { timeout: 10_000, interval: 5 })
  again.stop("cancel")
  await vi.waitUntil(() => slurm.calls("scontrol").length > before + 2, { timeout: 10_000, interval: 5 })
  slurm.clear("down")
  expect(await again.result).toMatchObject({ state: "cancelled" })
  // The job may have ended after the first of the two calls.
  expect(["--batch --signal=KILL 1", "1"]).toContain(slurm.calls("scancel").at(-1))
})

test("a job outlives the server that submitted it: the next server finds it, and it runs once", async () => {
  const { slurm, run, newExecutor } = await setup()
  const script = "echo one; while [ ! -e go ]; do sleep 0.02; done; echo '[2]'"
  const first = run(script, { attemptId: "a1" })
  await first.line("one")
  first.stop("shutdown")
  expect(await first.result).toMatchObject({ state: "lost" })
  expect(slurm.calls("scancel")).toEqual([])
  const again = run(script, { attemptId: "a1" }, await newExecutor())
  await again.line("one")
  await run("touch go").result
  expect(await again.result).toMatchObject({ state: "success", output: { inline: [2] } })
  expect((await allLines(again.log)).map(({ line }) => line)).toEqual(["one", "[2]"])
  expect(slurm.calls("sbatch").filter((call) => call.includes("ork-a1"))).toHaveLength(1)
})

test("a job that was prepared and never submitted is submitted by the next server", async () => {
  const { slurm, run, newExecutor, folder } = await setup()
  slurm.set("hold")
  const first = run("true", { attemptId: "a1" })
  await first.started
  first.stop("lost")
  await first.result
  slurm.setState(null)
  await rm(join(slurm.folder, "hold"))
  expect(await readdir(join(folder, "slurm", "attempts"))).toEqual(["a1"])
  const again = run("echo '[1]'", { attemptId: "a1" }, await newExecutor())
  expect(await again.result).toMatchObject({ state: "success", output: { inline: [1] } })
  expect(slurm.calls("sbatch")).toHaveLength(2)
})

test("a stop sends SIGTERM to all processes of a job, then kills it after the grace period", async () => {
  const { slurm, run } = await setup()
  slurm.set("hold")
  const running = run("true", { graceMs: 100 })
  await running.started
  running.stop("cancel")
  expect(await running.result).toMatchObject({ state: "cancelled" })
  expect(slurm.calls("scancel").slice(0, 2)).toEqual(["--full --signal=TERM 1", "--batch --signal=KILL 1"])
})

describe("leftover jobs", () => {
  const sweepOf =
    (executor: SlurmExecutor, ended: string[], asked: LeftoverWork[][] = []) =>
    () =>
      executor.sweep(async (work) => {
        asked.push(work)
        return new Set(ended)
      })
  const leave = async (task: Launched): Promise<void> => {
    await task.started
    task.stop("shutdown")
    await task.result
  }

  test("a job that nobody follows is cancelled by the second sweep if its attempt has ended; others stay", async () => {
    const { slurm, run, newExecutor, folder } = await setup()
    slurm.set("hold")
    await leave(run("true", { attemptId: "ended", runId: "run-1", taskId: "run-1.7" }))
    await leave(run("true", { attemptId: "foreign" }))
    const executor = await newExecutor()
    const followed = run("true", { attemptId: "followed" }, executor)
    await followed.started
    const asked: LeftoverWork[][] = []
    const sweep = sweepOf(executor, ["ended"], asked)
    await sweep()
    expect([asked, slurm.calls("scancel")]).toEqual([[], []])
    await sweep()
    expect(asked).toMatchObject([
      [
        { attemptId: "ended", runId: "run-1", taskId: "run-1.7" },
        { attemptId: "foreign", runId: "run-1", taskId: "task-1" },
      ],
    ])
    expect(slurm.calls("scancel")).toEqual(["1"])
    await sweep()
    expect((await readdir(join(folder, "slurm", "attempts"))).toSorted()).toEqual(["followed", "foreign"])
    expect(slurm.calls("scancel")).toEqual(["1"])
  })

  test("an outage of the controller delays the cancel", async () => {
    const { slurm, run, newExecutor } = await setup()
    slurm.set("hold")
    await leave(run("true", { attemptId: "ended" }))
    const sweep = sweepOf(await newExecutor(), ["ended"])
    await sweep()
    slurm.set("down")
    await expect(sweep()).rejects.toThrow(/job ork-ended.*Unable to contact slurm controller/)
    slurm.clear("down")
    await sweep()
    expect(slurm.calls("scancel")).toEqual(["1"])
  })

  test("a job that could not be followed is cancelled by a sweep", async () => {
    const { slurm, run, folder, newExecutor } = await setup()
    slurm.set("hold")
    const executor = await newExecutor()
    const task = run("true", { attemptId: "a1" }, executor)
    await task.started
    await mkdir(join(folder, "slurm", "ork-a1", "0", "exit"))
    expect(await task.result).toMatchObject({
      state: "failed",
      error: expect.stringContaining("could not be followed") as string,
    })
    const sweep = sweepOf(executor, ["a1"])
    await sweep()
    await sweep()
    expect(slurm.calls("scancel")).toEqual(["1"])
    await sweep()
    expect(await readdir(join(folder, "slurm"), { recursive: true })).toEqual(["attempts"])
  })
})

test("a missing command is reported with what to install", async () => {
  const { run } = await setup()
  const objects = new FileObjectStore("/nonexistent")
  const executor = new SlurmExecutor({ objects, clock: fastClock, folder: "/nonexistent", command: "", env: { PATH: "/x" } })
  await executor.start()
  const folder = await mkdtemp(join(tmpdir(), "ork-slurm-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const missing = new SlurmExecutor({ objects, clock: fastClock, folder, command: "/no/ssh login", env: { PATH: "/x" } })
  expect(await run("true", {}, missing).result).toMatchObject({
    state: "failed",
    error: "could not submit the job: /no/ssh was not found: install Slurm's commands where Ork runs, or set slurm_command",
  })
})
