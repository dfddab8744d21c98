// An engine on a real SQLite store in memory under a virtual clock, with tasks that a test scripts by name. The clock moves only when
// nothing else is left to do, so a retry after an hour takes no real time.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"
import { type AttemptResult, type Output, MAX_INLINE_OUTPUT_BYTES } from "../../src/core/model/change.ts"
import { sleep } from "../../src/sleep.ts"
import { newRunId, type RunId } from "../../src/core/model/ids.ts"
import type { Json, JsonObject } from "../../src/core/values/json.ts"
import { bindParams } from "../../src/core/rules/runs/params.ts"
import { Engine } from "../../src/engine/engine.ts"
import { inlineEvaluator } from "../../src/engine/gate/evaluator.ts"
import type { EngineOptions } from "../../src/engine/ports.ts"
import type { Assignment, Executor, LaunchContext } from "../../src/executors/executor.ts"
import { FileObjectStore } from "../../src/objects/file/file.ts"
import { parseDefinition } from "../../src/definition/parse.ts"
import { seededRandom } from "../../src/store/conformance/world.ts"
import { openSqlite } from "../../src/store/sqlite/sqlite.ts"
import type {
  AdvanceResult,
  Batch,
  LeaseHolderRow,
  RunRow,
  Store,
  StoreEvent,
  TaskRow,
} from "../../src/store/contract/store.ts"
import { VirtualClock } from "../sim/clock.ts"

/** A scripted task: returns its output, throws to fail, takes virtual time, or runs until it is stopped. */
export type Script = (assignment: Assignment, tools: Tools) => Json | Promise<Json>

export interface Tools {
  sleep(ms: number): Promise<void>
  signal: AbortSignal
  progress: LaunchContext["progress"]
  untilStopped(): Promise<never>
}

class Stopped extends Error {}

export const setup = async (scripts: { [task: string]: Script } = {}, options: Partial<EngineOptions> = {}) => {
  const clock = new VirtualClock()
  const random = seededRandom(1)
  const folder = mkdtempSync(join(tmpdir(), "ork-engine-"))
  /** Identities of processes that have died. */
  const deadProcesses = new Set<string>()
  const isDead = (holder: LeaseHolderRow): boolean => deadProcesses.has(holder.process)
  const store = await openSqlite({ path: ":memory:", clock, random, isDead })
  await store.migrate()
  const launched: Assignment[] = []
  let live = 0
  let maxLive = 0

  const objects = new FileObjectStore(join(folder, "objects"))
  /** Stores a large output as executors do. */
  const stored = async ({ prefix }: Assignment, value: Json): Promise<Output> => {
    const text = JSON.stringify(value)
    if (text.length <= MAX_INLINE_OUTPUT_BYTES) return { inline: value }
    await objects.put(`${prefix}output.json`, text)
    return { key: `${prefix}output.json`, bytes: Buffer.byteLength(text) }
  }

  const run = async (assignment: Assignment, context: LaunchContext): Promise<AttemptResult> => {
    launched.push(assignment)
    const startedAt = clock.now()
    context.started({ at: startedAt })
    live += 1
    maxLive = Math.max(maxLive, live)
    const finish = (rest: Pick<AttemptResult, "state"> & Partial<AttemptResult>): AttemptResult => {
      live -= 1
      return { startedAt, finishedAt: clock.now(), ...rest }
    }
    const stopped = new Promise<never>((_, reject) => {
      const stop = (): void => reject(new Stopped())
      // Stopped before its launch.
      if (context.signal.aborted) stop()
      else context.signal.addEventListener("abort", stop)
    })
    stopped.catch(() => undefined)
    const tools: Tools = {
      signal: context.signal,
      progress: (update) => context.progress(update),
      untilStopped: () => stopped,
      sleep: (ms) => Promise.race([stopped, sleep(clock, ms)]),
    }
    try {
      const output = await (scripts[assignment.task] ?? (() => null))(assignment, tools)
      return finish({ state: "success", output: await stored(assignment, output) })
    } catch (error) {
      if (!(error instanceof Stopped)) return finish({ state: "failed", error: (error as Error).message, exitCode: 1 })
      return finish({
        state: context.signal.reason === "timeout" ? "timeout" : context.signal.reason === "cancel" ? "cancelled" : "lost",
      })
    }
  }
  const executor: Executor = { name: "process", launch: run }

  const engine = new Engine({
    store,
    objects,
    executors: new Map([
      ["process", executor],
      ["slurm", { name: "slurm", remote: true, launch: run }],
    ]),
    evaluator: inlineEvaluator,
    clock,
    random,
    log: { info: () => {}, warn: () => {}, error: () => {} },
    holder: {
      kind: "server",
      name: "test",
      process: "",
      capabilities: { queues: ["default"], labels: [], handlers: [], capacity: 16, version: "1" },
    },
    lanes: ["q:default"],
    concurrency: 16,
    maxFanout: 100_000,
    maxOutputBytes: 1 << 20,
    graceMs: 1000,
    dataDir: folder,
    secret: (name) => (name === "API_TOKEN" ? "s3cret" : null),
    findWorkflow: async (name) => {
      const found = await store.getWorkflow(name)
      return found === null ? null : { workflowId: found.id, versionId: found.versionId }
    },
    ...options,
  })
  const events: StoreEvent[] = []
  engine.onEvent((event) => events.push(event))

  /** Runs everything until the promise settles; moves the clock when nothing else is left to do. */
  const until = async <T>(promise: Promise<T>): Promise<T> => {
    let settled = false
    const mark = (): void => void (settled = true)
    promise.then(mark, mark)
    for (let quiet = 0; !settled; quiet++) {
      await new Promise((resolve) => setImmediate(resolve))
      if (settled) break
      if (quiet > 12 && clock.step()) quiet = 0
      // Reading a file takes real time, but no virtual time.
      if (quiet > 100) await new Promise((resolve) => setTimeout(resolve, 5))
      if (quiet > 1000) throw new Error("no event is left, and the promise has not settled")
    }
    return await promise
  }
  await until(engine.start())
  onTestFinished(async () => {
    await until(engine.stop())
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const deploy = async (text: string) => {
    const parsed = parseDefinition(text)
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
    return { parsed, version: await store.putWorkflow({ compiled: parsed.workflow, ...parsed, deploy: true }) }
  }

  const trigger = async (
    text: string,
    params: JsonObject = {},
    rest: { priority?: number; workingDir?: null } = {},
  ): Promise<RunId> => {
    const { parsed, version } = await deploy(text)
    const bound = bindParams(parsed.workflow, { values: params })
    if (!bound.ok) throw new Error(JSON.stringify(bound.problems))
    const { run } = await engine.trigger({
      id: newRunId(clock.now(), random.hex128()),
      workflowId: version.workflowId,
      versionId: version.versionId,
      trigger: "manual",
      params: bound.params,
      priority: rest.priority ?? null,
      logicalDate: null,
      idempotencyKey: null,
      workingDir: rest.workingDir === undefined ? folder : null,
    })
    return run.id
  }

  const tasks = async (runId: RunId): Promise<TaskRow[]> => await store.listTasks({ runId, limit: 10_000 })
  /** `{ a: "success", "each.0": "failed" }` */
  const statuses = async (runId: RunId): Promise<{ [task: string]: string }> =>
    Object.fromEntries(
      (await tasks(runId)).map((task) => [task.path === "" ? task.name : `${task.name}.${task.path}`, task.status]),
    )

  return {
    clock,
    store,
    engine,
    deadProcesses,
    objects,
    events,
    launched,
    folder,
    until,
    deploy,
    trigger,
    tasks,
    statuses,
    /** The largest number of attempts that were live at once. */
    maxLive: () => maxLive,
    ended: (runId: RunId): Promise<RunRow> => until(engine.waitForRun(runId)),
    /** Runs everything, and then `ms` of virtual time. */
    pass: (ms: number): Promise<void> => until(new Promise((resolve) => clock.after(ms, () => resolve()))),
    task: async (runId: RunId, name: string, path = ""): Promise<TaskRow> => (await store.getTask({ runId, name, path }))!,
    inputs: (name: string): Json[] => launched.filter((each) => each.task === name).map((each) => each.input),
  }
}

export const fail = (message = "exit code 1"): never => {
  throw new Error(message)
}

/** Loses the reply of the first call that `when` selects, after its commit. */
export const loseReply = (store: Store, when: (batch: Batch, advanced: AdvanceResult) => boolean): (() => boolean) => {
  const real = store.advance
  let lost = false
  store.advance = async (batch) => {
    const advanced = await real(batch)
    if (lost || !when(batch, advanced)) return advanced
    lost = true
    throw new Error("the connection is gone")
  }
  return () => lost
}
