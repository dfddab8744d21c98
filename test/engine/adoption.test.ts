// Remote attempts: the server that started one dies, stops or loses its lease, and another server continues the same attempt.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test, vi } from "vitest"
import type { AttemptResult } from "../../src/core/model/change.ts"
import { newRunId, type RunId, taskId } from "../../src/core/model/ids.ts"
import { Sweeper } from "../../src/engine/attempts/sweeper.ts"
import { Engine } from "../../src/engine/engine.ts"
import { inlineEvaluator } from "../../src/engine/gate/evaluator.ts"
import { systemClock, systemRandom } from "../../src/engine/system.ts"
import type { Assignment, Executor } from "../../src/executors/executor.ts"
import { bundlePrefix, createBundle, storeBundle } from "../../src/objects/bundles/bundles.ts"
import { FileObjectStore } from "../../src/objects/file/file.ts"
import { parseDefinition } from "../../src/definition/parse.ts"
import { openSqlite, type SqliteStore } from "../../src/store/sqlite/sqlite.ts"

/** Time that a server needs to let go of a job. */
const HANDOVER_MS = 50

/** A fake cluster: creates one job per attempt, however often it is launched; the test ends it. Hands over like `RemoteAttempt`. */
class Cluster {
  readonly jobs = new Map<string, { ended: Promise<AttemptResult>; end: (result: AttemptResult) => void }>()
  readonly launches: string[] = []
  readonly stopped: string[] = []
  handovers = 0
  readonly adopted: Assignment["adopted"][] = []
  /** The start that it reports; null: now. */
  startedAt: number | null = null

  executor(name: string): Executor {
    return {
      name,
      remote: true,
      launch: ({ attemptId, adopted }, { signal, started }) => {
        this.launches.push(attemptId)
        this.adopted.push(adopted)
        const known = this.jobs.get(attemptId) ?? Promise.withResolvers<AttemptResult>()
        const job = "ended" in known ? known : { ended: known.promise, end: known.resolve }
        this.jobs.set(attemptId, job)
        started({ at: this.startedAt ?? Date.now(), externalId: `job-${attemptId}` })
        const stop = (): void => {
          const ended = { startedAt: null, finishedAt: Date.now() }
          if (signal.reason === "shutdown" || signal.reason === "lost") {
            const handOver = (): void => {
              left.resolve({ ...ended, state: "lost" })
              this.handovers += 1
            }
            setTimeout(handOver, HANDOVER_MS)
            return
          }
          this.stopped.push(attemptId)
          job.end({ ...ended, state: signal.reason === "timeout" ? "timeout" : "cancelled" })
        }
        const left = Promise.withResolvers<AttemptResult>()
        if (signal.aborted) stop()
        else signal.addEventListener("abort", stop)
        return Promise.race([job.ended, left.promise])
      },
    }
  }

  end(attemptId: string): void {
    this.jobs.get(attemptId)!.end({ state: "success", startedAt: Date.now(), finishedAt: Date.now(), output: { inline: 7 } })
  }
}

const SILENT = { info: () => {}, warn: () => {}, error: () => {} }

const setup = async () => {
  const folder = mkdtempSync(join(tmpdir(), "ork-adopt-"))
  const cluster = new Cluster()
  /** Number of next reads that fail. */
  const secrets = { failures: 0 }
  const stores: SqliteStore[] = []
  /** Names of the servers that count as dead. */
  const dead = new Set<string>()
  const open = async () => {
    const options = { path: join(folder, "ork.db"), clock: systemClock, random: systemRandom }
    const store = await openSqlite({ ...options, isDead: ({ process }) => dead.has(process) })
    await store.migrate()
    stores.push(store)
    return Object.assign(store, { usesLeases: true })
  }
  const serve = async (name: string, remoteConcurrency = 100) => {
    const store = await open()
    const engine = new Engine({
      store,
      objects: new FileObjectStore(join(folder, "objects")),
      executors: new Map([["slurm", cluster.executor("slurm")]]),
      evaluator: inlineEvaluator,
      clock: systemClock,
      random: systemRandom,
      log: SILENT,
      holder: { kind: "server", name, process: name },
      lanes: ["q:default"],
      concurrency: 1,
      remoteConcurrency,
      maxFanout: 1000,
      maxOutputBytes: 1 << 20,
      graceMs: 100,
      dataDir: folder,
      secret: () => {
        if (secrets.failures-- > 0) throw new Error("the secret manager does not respond")
        return "value"
      },
    })
    await engine.start()
    return { engine, store, name }
  }
  /** Ends a server as if it was killed: it reaches the database no longer. */
  const kill = async ({ name, store }: Awaited<ReturnType<typeof serve>>): Promise<void> => {
    dead.add(name)
    await store.close()
  }
  /** Starts a run in the folder of the test, or in one that is made from a bundle. */
  const trigger = async (
    { engine, store }: Awaited<ReturnType<typeof serve>>,
    text: string,
    bundle?: string,
  ): Promise<RunId> => {
    const parsed = parseDefinition(text)
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
    const compiled = bundle === undefined ? parsed.workflow : { ...parsed.workflow, bundle }
    const version = await store.putWorkflow({ ...parsed, compiled, deploy: true })
    const { run } = await engine.trigger({
      id: newRunId(Date.now(), systemRandom.hex128()),
      ...version,
      trigger: "manual",
      params: {},
      priority: null,
      logicalDate: null,
      idempotencyKey: null,
      workingDir: bundle === undefined ? folder : null,
    })
    return run.id
  }
  onTestFinished(async () => {
    for (const store of stores) await store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return { cluster, serve, kill, dead, trigger, secrets, folder }
}

const ONE = "name: far\ntasks: { a: { executor: slurm, command: ./job } }"

test("a restarted server continues the attempt of the dead one under the same attempt id", async () => {
  const { cluster, serve, kill, trigger } = await setup()
  const first = await serve("first")
  const runId = await trigger(first, ONE)
  await vi.waitUntil(async () => (await first.store.getTask({ runId, name: "a", path: "" }))?.status === "running")
  await kill(first)
  const second = await serve("second")
  await vi.waitUntil(() => cluster.launches.length === 2)
  const [attemptId] = cluster.launches
  expect(new Set(cluster.launches).size).toBe(1)
  cluster.end(attemptId!)
  expect((await second.engine.waitForRun(runId)).status).toBe("success")
  const task = await second.store.getTask({ runId, name: "a", path: "" })
  expect(task).toMatchObject({ attempt: 1, losses: 0, attemptId, output: { inline: 7 }, worker: "second" })
  await second.engine.stop()
})

test("the time that an attempt has run under a dead server counts: its start stays, and its timeout does not begin again", async () => {
  const { cluster, serve, kill, trigger } = await setup()
  const startedAt = Date.now() - 5000
  cluster.startedAt = startedAt
  const first = await serve("first")
  const runId = await trigger(first, "name: far\ntasks: { a: { executor: slurm, command: ./job, timeout: 4s } }")
  await vi.waitUntil(async () => (await first.store.getTask({ runId, name: "a", path: "" }))?.status === "running")
  await kill(first)
  cluster.startedAt = null
  const second = await serve("second")
  expect((await second.engine.waitForRun(runId)).status).toBe("failed")
  expect(cluster.adopted).toEqual([undefined, { startedAt }])
  const task = await second.store.getTask({ runId, name: "a", path: "" })
  expect(task).toMatchObject({ status: "failed", error: "timed out after 4s", startedAt: new Date(startedAt).toISOString() })
  await second.engine.stop()
})

test("an adopted attempt whose secret cannot be read for now is continued when it can, and not retried", async () => {
  const { cluster, serve, kill, trigger, secrets } = await setup()
  const first = await serve("first")
  const runId = await trigger(first, "name: far\ntasks: { a: { executor: slurm, command: ./job, env: { T: { secret: T } } } }")
  await vi.waitUntil(async () => (await first.store.getTask({ runId, name: "a", path: "" }))?.status === "running")
  await kill(first)
  secrets.failures = 2
  const second = await serve("second")
  await vi.waitUntil(() => cluster.launches.length === 2, { timeout: 10_000 })
  expect(new Set(cluster.launches).size).toBe(1)
  cluster.end(cluster.launches[0]!)
  expect((await second.engine.waitForRun(runId)).status).toBe("success")
  await second.engine.stop()
})

const WITH_SECRET = "name: far\ntasks: { a: { executor: slurm, command: ./job, timeout: 10s, env: { T: { secret: T } } } }"

/** Starts a task whose secret cannot be read any more, under a server that adopted it from a dead one. */
const adoptUnprepared = async (startedAt: number | null = null) => {
  const fixture = await setup()
  const { cluster, serve, kill, trigger, secrets } = fixture
  cluster.startedAt = startedAt
  const first = await serve("first")
  const runId = await trigger(first, WITH_SECRET)
  await vi.waitUntil(async () => (await first.store.getTask({ runId, name: "a", path: "" }))?.status === "running")
  await kill(first)
  secrets.failures = Number.POSITIVE_INFINITY
  const second = await serve("second")
  await vi.waitUntil(async () => (await second.store.getTask({ runId, name: "a", path: "" }))?.worker === "second")
  return { ...fixture, runId, second }
}

test("an adopted attempt that cannot be prepared is stopped when its run is cancelled", async () => {
  const { cluster, second, runId } = await adoptUnprepared()
  await second.engine.cancel(runId)
  expect((await second.engine.waitForRun(runId)).status).toBe("cancelled")
  expect(cluster.stopped).toEqual([cluster.launches[0]])
  await second.engine.stop()
})

test("an adopted attempt that cannot be prepared is stopped when its timeout ends", async () => {
  const { cluster, second, runId } = await adoptUnprepared(Date.now() - 9000)
  expect((await second.engine.waitForRun(runId)).status).toBe("failed")
  expect(cluster.stopped).toEqual([cluster.launches[0]])
  const { error } = (await second.store.getTask({ runId, name: "a", path: "" }))!
  expect(error).toBe("timed out; the task could not be prepared: the secret manager does not respond")
  await second.engine.stop()
})

test("an adopted attempt that cannot be prepared is left to the next server at shutdown", async () => {
  const { cluster, second, runId, secrets, serve } = await adoptUnprepared()
  await second.engine.stop()
  secrets.failures = 0
  const third = await serve("third")
  await vi.waitUntil(() => cluster.launches.length === 2)
  cluster.end(cluster.launches[1]!)
  expect((await third.engine.waitForRun(runId)).status).toBe("success")
  expect(cluster.stopped).toEqual([])
  await third.engine.stop()
})

test("an adopted attempt whose bundle is missing fails, and its work is stopped", async () => {
  const { cluster, serve, kill, trigger, folder } = await setup()
  const { hash, bytes } = createBundle([{ path: "job", bytes: Buffer.from("x"), executable: true }])
  const objects = new FileObjectStore(join(folder, "objects"))
  await storeBundle(objects, { hash, bytes })
  const first = await serve("first")
  const runId = await trigger(first, ONE, hash)
  await vi.waitUntil(async () => (await first.store.getTask({ runId, name: "a", path: "" }))?.status === "running")
  await kill(first)
  await objects.deletePrefix(bundlePrefix(hash))
  for (const local of ["work", "bundles"]) rmSync(join(folder, local), { recursive: true, force: true })
  const second = await serve("second")
  expect((await second.engine.waitForRun(runId)).status).toBe("failed")
  expect(cluster.stopped).toEqual([cluster.launches[0]])
  const { error } = (await second.store.getTask({ runId, name: "a", path: "" }))!
  expect(error).toContain("are missing in the object store")
  await second.engine.stop()
})

test("work counts as left over when its attempt has ended, and not when its run is unknown", async () => {
  const { cluster, serve, trigger } = await setup()
  const server = await serve("first")
  const [over, live] = [await trigger(server, ONE), await trigger(server, ONE)]
  await vi.waitUntil(() => cluster.launches.length === 2)
  const workOf = async (runId: RunId) => {
    const { row, attemptId } = (await server.store.getTask({ runId, name: "a", path: "" }))!
    return { runId, taskId: taskId(runId, row), attemptId: attemptId! }
  }
  const [first, second] = [await workOf(over), await workOf(live)]
  cluster.end(first.attemptId)
  await server.engine.waitForRun(over)
  const unknown = { ...first, runId: newRunId(Date.now(), systemRandom.hex128()) }
  const sweeper = new Sweeper({ store: server.store, executors: new Map(), clock: systemClock, log: SILENT })
  expect(await sweeper.endedOf([first, second])).toEqual(new Set([first.attemptId]))
  expect(await sweeper.endedOf([unknown])).toEqual(new Set())
  await server.engine.stop()
})

test("a server that stops leaves its remote attempts to the next server", async () => {
  const { cluster, serve, trigger } = await setup()
  const first = await serve("first")
  const runId = await trigger(first, ONE)
  await vi.waitUntil(() => cluster.launches.length === 1)
  await first.engine.stop({ drainMs: 20 })
  const second = await serve("second")
  await vi.waitUntil(() => cluster.launches.length === 2)
  cluster.end(cluster.launches[1]!)
  expect((await second.engine.waitForRun(runId)).status).toBe("success")
  expect(new Set(cluster.launches).size).toBe(1)
  expect(cluster.stopped).toEqual([])
  await second.engine.stop()
})

test("the server that adopts an attempt stops it if its run was cancelled in the meantime", async () => {
  const { cluster, serve, kill, trigger } = await setup()
  const first = await serve("first")
  const runId = await trigger(first, ONE)
  await vi.waitUntil(async () => (await first.store.getTask({ runId, name: "a", path: "" }))?.status === "running")
  await first.store.requestCancel(runId, "cancel")
  await kill(first)
  const second = await serve("second")
  expect((await second.engine.waitForRun(runId)).status).toBe("cancelled")
  expect(cluster.stopped).toContain(cluster.launches[0])
  await second.engine.stop()
})

test("a server that has lost its lease leaves its remote attempts to the server that adopted them", async () => {
  const { cluster, serve, dead, trigger } = await setup()
  const first = await serve("first")
  const runId = await trigger(first, ONE)
  await vi.waitUntil(async () => (await first.store.getTask({ runId, name: "a", path: "" }))?.status === "running")
  dead.add("first")
  const second = await serve("second")
  await vi.waitUntil(() => cluster.launches.length === 2)
  dead.delete("first")
  await vi.waitUntil(() => cluster.handovers === 1, { timeout: 10_000 })
  cluster.end(cluster.launches[0]!)
  expect((await second.engine.waitForRun(runId)).status).toBe("success")
  expect(await second.store.getTask({ runId, name: "a", path: "" })).toMatchObject({ attempt: 1, losses: 0, worker: "second" })
  expect(new Set(cluster.launches).size).toBe(1)
  await first.engine.stop()
  await second.engine.stop()
})

test("a server that has lost its lease adopts its own remote attempts, and a cancel reaches them", async () => {
  const { cluster, serve, trigger } = await setup()
  const { engine, store } = await serve("first")
  const runId = await trigger({ engine, store, name: "first" }, ONE)
  await vi.waitUntil(async () => (await store.getTask({ runId, name: "a", path: "" }))?.status === "running")
  for (const { id } of await store.listHolders()) await store.deregisterHolder(id)
  await vi.waitUntil(() => cluster.handovers === 1, { timeout: 10_000 })
  expect(cluster.launches).toHaveLength(2)
  await engine.cancel(runId)
  expect((await engine.waitForRun(runId)).status).toBe("cancelled")
  expect(new Set(cluster.launches).size).toBe(1)
  expect(cluster.stopped).toEqual([cluster.launches[0]])
  await engine.stop()
})

test("remote attempts use their own slots, not those of the machine", async () => {
  const { cluster, serve, trigger } = await setup()
  const server = await serve("first", 3)
  const runId = await trigger(server, "name: many\ntasks: { a: { executor: slurm, command: ./job, parallel: 5 } }")
  await vi.waitUntil(() => cluster.jobs.size === 3)
  for (let ended = 0; ended < 5; ended++) {
    await vi.waitUntil(() => cluster.jobs.size === Math.min(5, ended + 3))
    cluster.end([...cluster.jobs.keys()][ended]!)
  }
  expect((await server.engine.waitForRun(runId)).status).toBe("success")
  await server.engine.stop()
})
