import { statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { temporaryFolder } from "../../../test/support/ork.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { CodeFile } from "./frames.ts"
import { type WorkerSetOptions, type PoolOptions, WorkerPool } from "./pool.ts"
import type { PoolWorker, WorkerExit } from "./worker.ts"

class FakeWorker {
  readonly name: string
  readonly #gone = Promise.withResolvers<WorkerExit>()
  readonly exited = this.#gone.promise
  busyPolls = 0
  loaded = true
  lastMs = 0
  tasks = 0
  dead = false
  onFiles: (files: CodeFile[]) => void = () => {}

  constructor(name: string) {
    this.name = name
  }

  closeInput(): void {
    this.dead = true
    this.#gone.resolve({ kind: "lost", reason: "" })
  }

  kill(): void {
    this.closeInput()
  }
}

const setup = (options: Partial<PoolOptions> = {}) => {
  let now = 0
  const timers = new Set<{ at: number; fn: () => void }>()
  const clock: Clock = {
    // The time of day is set back all the time.
    now: () => 1e9 - now,
    monotonic: () => now,
    after(ms, fn) {
      const timer = { at: now + ms, fn }
      timers.add(timer)
      return () => void timers.delete(timer)
    },
  }
  const pool = new WorkerPool({ clock, maxWorkers: 4, eagerWorkers: 2, maxTasks: 10, idleMs: 1000, ...options })
  const started: FakeWorker[] = []
  const failures: Error[] = []
  const group = (name: string, rest: Partial<WorkerSetOptions> = {}): WorkerSetOptions => ({
    name,
    fixed: true,
    single: false,
    async start() {
      const failure = failures.shift()
      if (failure !== undefined) throw failure
      const worker = new FakeWorker(`${name}${started.length}`)
      started.push(worker)
      return worker as unknown as PoolWorker
    },
    ...rest,
  })
  const settled = () => new Promise<void>((resolve) => setImmediate(resolve))
  return {
    pool,
    started,
    failures,
    group,
    settled,
    acquire: async (options: WorkerSetOptions, signal = new AbortController().signal) =>
      (await pool.acquire(options, signal)) as unknown as FakeWorker,
    release: (options: WorkerSetOptions, worker: FakeWorker) =>
      pool.returnWorker(options, worker as unknown as PoolWorker, null),
    async pass(ms: number) {
      now += ms
      for (const timer of [...timers].filter(({ at }) => at <= now)) {
        timers.delete(timer)
        timer.fn()
      }
      await settled()
    },
  }
}

test("idle workers are reused, the last one first", async () => {
  const { acquire, release, group, started } = setup()
  const a = group("a")
  const [one, two] = [await acquire(a), await acquire(a)]
  await release(a, one)
  await release(a, two)
  expect(await acquire(a)).toBe(two)
  expect(await acquire(a)).toBe(one)
  expect(started).toHaveLength(2)
})

test("short tasks wait for one of the eager workers; long tasks get more workers, up to the maximum", async () => {
  const { acquire, release, group, started, pass, settled } = setup()
  const a = group("a")
  const [one] = [await acquire(a), await acquire(a)]
  const waiting = Array.from({ length: 5 }, () => acquire(a))
  for (let i = 0; i < 4; i++) await pass(10)
  expect(started).toHaveLength(2)
  await pass(10)
  expect(started).toHaveLength(4)
  for (let i = 0; i < 10; i++) await pass(10)
  expect(started).toHaveLength(4)
  await release(a, one)
  await settled()
  expect(await Promise.race(waiting)).toBeDefined()
})

test("long tasks get more workers at once; a few slow ones among short tasks do not", async () => {
  const startedAfter = async (times: number[]): Promise<number> => {
    const { acquire, release, group, started, settled } = setup({ maxTasks: 100 })
    const a = group("a")
    for (const lastMs of [0, ...times]) {
      const worker = await acquire(a)
      worker.tasks += 1
      worker.lastMs = lastMs
      await release(a, worker)
    }
    for (let i = 0; i < 5; i++) void acquire(a)
    await settled()
    return started.length
  }
  expect(await startedAfter([500, 0.1, 0.1, 500, 0.1])).toBe(2)
  // The existing worker and the eager ones.
  expect(await startedAfter(Array.from({ length: 8 }, () => 20))).toBe(3)
})

test("the first task of a worker, which loads the code, does not count as long", async () => {
  const { acquire, release, group, started, settled } = setup({ eagerWorkers: 8, maxWorkers: 64 })
  const a = group("a")
  const workers = await Promise.all(Array.from({ length: 8 }, () => acquire(a)))
  for (const worker of workers) {
    worker.tasks = 1
    worker.lastMs = 200
    await release(a, worker)
  }
  for (let i = 0; i < 20; i++) void acquire(a)
  await settled()
  expect(started).toHaveLength(8)
})

test("workers that load their code cause no more workers, until that takes very long", async () => {
  const { acquire, group, started, pass } = setup()
  const a = group("a")
  for (const worker of [await acquire(a), await acquire(a)]) worker.loaded = false
  void acquire(a)
  for (let i = 0; i < 19; i++) await pass(10)
  expect(started).toHaveLength(2)
  await pass(10)
  expect(started).toHaveLength(3)
})

test("a pause of the server itself does not count as a long task", async () => {
  const { acquire, group, started, pass } = setup()
  const a = group("a")
  await acquire(a)
  await acquire(a)
  void acquire(a)
  await pass(5000)
  expect(started).toHaveLength(2)
})

test("results of short tasks are reported together while others wait for a worker", async () => {
  const { acquire, release, group, pool, pass, settled } = setup({ eagerWorkers: 1, maxWorkers: 1 })
  const a = group("a")
  const reported: number[] = []
  const end = async (worker: FakeWorker, number: number): Promise<void> => {
    await release(a, worker)
    void pool.reportReady(a).then(() => reported.push(number))
    await settled()
  }
  let worker = await acquire(a)
  const waiting = Array.from({ length: 4 }, () => acquire(a))
  await end(worker, 1)
  worker = await waiting[0]!
  await end(worker, 2)
  expect(reported).toEqual([])
  // The number of ended tasks equals the number of waiting ones.
  await end(await waiting[1]!, 3)
  expect(new Set(reported)).toEqual(new Set([1, 2, 3]))
  void acquire(a)
  await end(await waiting[2]!, 4)
  expect(reported).not.toContain(4)
  await pass(4)
  expect(reported).toContain(4)
})

test("without waiting tasks, or if tasks are long, a result is reported at once", async () => {
  const { acquire, release, group, pool, settled } = setup({ eagerWorkers: 1, maxWorkers: 1 })
  const a = group("a")
  const reported: number[] = []
  await release(a, await acquire(a))
  void pool.reportReady(a).then(() => reported.push(1))
  await settled()
  expect(reported).toEqual([1])
  for (let i = 0; i < 9; i++) {
    const worker = await acquire(a)
    worker.tasks += 1
    worker.lastMs = 20
    await release(a, worker)
  }
  const worker = await acquire(a)
  void Promise.allSettled([acquire(a), acquire(a), acquire(a)])
  await release(a, worker)
  void pool.reportReady(a).then(() => reported.push(2))
  await settled()
  expect(reported).toEqual([1, 2])
})

test("a worker with outdated code is retired even if another worker has already loaded the new code", async () => {
  const { acquire, release, group, pass } = setup()
  const a = group("a", { fixed: false })
  const path = join(temporaryFolder(), "code.js")
  const load = (worker: FakeWorker): void => {
    const { mtimeMs, size } = statSync(path)
    worker.onFiles([[path, Math.floor(mtimeMs), size]])
  }
  const [one, two] = [await acquire(a), await acquire(a)]
  writeFileSync(path, "old")
  load(one)
  writeFileSync(path, "newer")
  load(two)
  await release(a, two)
  await release(a, one)
  await pass(60)
  expect(await acquire(a)).not.toBe(one)
  expect(one.dead).toBe(true)
})

test("a worker of another set replaces the one that was idle longest", async () => {
  const { acquire, release, group, started, pool } = setup({ maxWorkers: 2 })
  const [a, b] = [group("a"), group("b")]
  const [one, two] = [await acquire(a), await acquire(a)]
  await release(a, one)
  await release(a, two)
  const other = await acquire(b)
  expect(other.name).toBe("b2")
  expect(started.map(({ dead }) => dead)).toEqual([true, false, false])
  expect(pool.size).toBe(2)
})

test("a worker that cannot be started fails one task only", async () => {
  const { acquire, group, failures } = setup()
  failures.push(new Error("python3 was not found in PATH"))
  const a = group("a")
  const [first, second] = await Promise.allSettled([acquire(a), acquire(a)])
  expect(first).toMatchObject({ status: "rejected", reason: { message: "python3 was not found in PATH" } })
  expect(second.status).toBe("fulfilled")
})

test("a task that is stopped while it waits gets no worker", async () => {
  const { acquire, release, group } = setup({ eagerWorkers: 1, maxWorkers: 1 })
  const a = group("a")
  const one = await acquire(a)
  const stop = new AbortController()
  const stopped = acquire(a, stop.signal)
  const next = acquire(a)
  stop.abort("cancel")
  await expect(stopped).rejects.toThrow("stopped")
  await release(a, one)
  expect(await next).toBe(one)
})

test("workers are retired after their tasks, after an idle time, and by a stop of the pool", async () => {
  const { acquire, release, group, pass, started, pool } = setup({ maxTasks: 2 })
  const a = group("a")
  const one = await acquire(a)
  one.tasks = 2
  await release(a, one)
  expect(one.dead).toBe(true)
  const two = await acquire(a)
  await release(a, two)
  await pass(600)
  expect(two.dead).toBe(false)
  await pass(600)
  expect(two.dead).toBe(true)
  const three = await acquire(a)
  await pool.stop()
  expect([three.dead, started.length]).toEqual([true, 3])
  await expect(acquire(a)).rejects.toThrow("the pool has stopped")
})
