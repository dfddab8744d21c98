// A RunReader over the stores of this folder.

import type { Context } from "./context.ts"
import { sleep } from "../../sleep.ts"
import { InputError } from "../terminal/errors.ts"
import { findRun } from "./find-run.ts"
import type { OpenStores } from "./stores.ts"
import type { ArtifactRequest, LogRequest, RunReader } from "./reader.ts"
import { notRunText } from "./server-reader.ts"
import type { AttemptId, RunId } from "../../core/model/ids.ts"
import { nearest } from "../../core/values/nearest.ts"
import { isTaskFinished } from "../../core/model/status.ts"
import { TaskLog } from "../../objects/logs/task-log.ts"
import { artifactKey, readArtifactList } from "../../objects/artifacts/artifact-list.ts"
import { attemptPrefix } from "../../objects/objects.ts"
import { readOutputObject } from "../../objects/shared/read-object.ts"
import type { Run, Task } from "../../protocol/client/client.ts"
import { attemptShapes, runShape, taskShape } from "../../engine/run-json.ts"
import { NotFound } from "../../store/contract/errors.ts"
import type { RunRow, Store, TaskRow } from "../../store/contract/store.ts"
import { rowPages } from "../../store/contract/row-pages.ts"

const PAGE_SIZE = 500
const POLL_MS = 500

export const storeReader = (context: Context, stores: OpenStores): RunReader => ({
  async listRuns(filter) {
    return (await stores.store.listRuns(filter)).map(runShape)
  },
  async findRun(text) {
    return runShape(await findRun(stores.store, text))
  },
  tasks: (run) => allTasks(stores, run),
  async pathOf(run, name, label) {
    const [path, another] = await stores.store.findPaths({ runId: run.id as RunId, name, label, limit: 2 })
    if (path === undefined) throw new InputError(`task ${name} of run ${run.id} has no instance ${label}`)
    if (another !== undefined) throw new InputError(`task ${name} has several instances ${label}; select one with --path`)
    return path
  },
  async graph(run) {
    const { runGraph } = await import("../../api/views/run-graph.ts")
    return runGraph(stores.store, (await stores.store.getRun(run.id as RunId))!)
  },
  async explain(run, task) {
    const { explain, holderIsAlive } = await import("../../engine/services/explain.ts")
    const { clock, processAlive } = context.backends
    const parts = { store: stores.store, isAlive: holderIsAlive(stores.store, () => clock.now(), processAlive) }
    return explain(parts, run.id as RunId, task).catch((error: unknown) => {
      throw error instanceof NotFound ? new InputError(error.message) : error
    })
  },
  async *export({ id }) {
    const { exportRun } = await import("../../api/views/run-export.ts")
    const run = (await stores.store.getRun(id as RunId))!
    const { clock, openSecrets } = context.backends
    const secrets = await openSecrets(stores.config, context)
    yield* exportRun(stores, run, { now: clock.now(), files: true, secret: (name) => secrets.find(name) })
  },
  async *logBytes(request) {
    const { log, ended } = await openLog(context, stores, request)
    yield* log.bytes({ ended })
  },
  async *logLines(request) {
    const { log, ended } = await openLog(context, stores, request)
    for await (const { at, stream, line } of log.lines({ ended })) yield { at: new Date(at).toISOString(), stream, line }
  },
  async artifacts(request) {
    const prefix = await artifactPrefix(stores, request)
    return prefix === null ? [] : ((await readArtifactList(stores.objects, prefix)) ?? [])
  },
  async *artifactBytes(request, file) {
    const prefix = await artifactPrefix(stores, request)
    if (prefix !== null) yield* readOutputObject(stores.objects, artifactKey(prefix, file))
  },
})

async function* allTasks({ store, objects }: OpenStores, { id }: Run): AsyncGenerator<Task> {
  const run = (await store.getRun(id as RunId))!
  const workflow = await store.getVersion(run.versionId)
  const { TaskInputs } = await import("../../api/views/task-input.ts")
  const inputs = new TaskInputs({ store, objects }, run, workflow, { listed: true })
  for await (const page of rowPages(PAGE_SIZE, (each) => store.listTasks({ runId: id as RunId, ...each }))) {
    for (const task of page) {
      const past = task.attempt > 1 ? await store.listAttempts(task.row) : []
      yield taskShape(task, workflow.nodes[task.node]!, {
        input: await inputs.of(task),
        attempts: attemptShapes(task, past),
      })
    }
  }
}

// -- logs ----------------------------------------------------------------------------------------------------------------------

/** Opens the log. `ended` aborts when no more log lines will be written. */
const openLog = async (
  context: Context,
  { store, objects }: OpenStores,
  { runId, task: name, path, attempt, follow }: LogRequest,
): Promise<{ log: TaskLog; ended: AbortSignal }> => {
  const run = (await store.getRun(runId as RunId))!
  const task = await findTask(store, run, name, path)
  const attemptId = await findAttempt(store, task, attempt)
  if (attemptId === null) throw new InputError(notRunText(task))
  const log = new TaskLog(objects, attemptPrefix(run.id, name, attemptId))
  const running = task.attemptId === attemptId && !isTaskFinished(task.status)
  return { log, ended: follow && running ? attemptEnd(context, store, task) : AbortSignal.abort() }
}

/** Returns the prefix of the objects of an attempt; null if no attempt was made. */
const artifactPrefix = async (
  { store }: OpenStores,
  { runId, task: name, path, attempt }: ArtifactRequest,
): Promise<string | null> => {
  const run = (await store.getRun(runId as RunId))!
  const task = await findTask(store, run, name, path === "" ? undefined : path)
  const attemptId = await findAttempt(store, task, attempt)
  return attemptId === null ? null : attemptPrefix(run.id, name, attemptId)
}

/** Returns a signal that aborts when the task's current attempt ends. Polls the store, because another process writes it. */
const attemptEnd = (context: Context, store: Store, { runId, name, path, attemptId }: TaskRow): AbortSignal => {
  const ended = new AbortController()
  const poll = async (): Promise<void> => {
    try {
      for (;;) {
        await sleep(context.backends.clock, POLL_MS)
        const task = await store.getTask({ runId, name, path })
        if (task === null || task.attemptId !== attemptId || isTaskFinished(task.status)) break
      }
    } finally {
      ended.abort()
    }
  }
  void poll()
  return ended.signal
}

const findTask = async (store: Store, run: RunRow, name: string, path: string | undefined): Promise<TaskRow> => {
  const [first, second] = await store.listTasks({ runId: run.id, name, limit: 2 })
  if (first === undefined) throw new InputError(await noSuchTask(store, run, name))
  if (path !== undefined) {
    const task = await store.getTask({ runId: run.id, name, path })
    if (task === null || task.kind !== "task") throw new InputError(`task ${name} of run ${run.id} has no instance ${path}`)
    return task
  }
  if (second !== undefined) {
    throw new InputError(`task ${name} has several instances; select one with --index N (or --path 1.2 in groups)`)
  }
  return first
}

const noSuchTask = async (store: Store, run: RunRow, name: string): Promise<string> => {
  const names = (await store.getVersion(run.versionId)).nodes.map((node) => node.name)
  if (names.includes(name)) return `task ${name} of run ${run.id} has no instances`
  const near = nearest(name, names)
  const hint = near === undefined ? `\`ork show ${run.id}\` lists its tasks` : `did you mean ${near}?`
  return `run ${run.id} has no task ${name}; ${hint}`
}

/** Returns null if no attempt was made. */
const findAttempt = async (store: Store, task: TaskRow, attempt: number | undefined): Promise<AttemptId | null> => {
  if (task.attemptId !== null && (attempt === undefined || attempt === task.attempt)) return task.attemptId
  const past = await store.listAttempts(task.row)
  const found = attempt === undefined ? past.at(-1) : past.find((each) => each.attempt === attempt)
  if (found !== undefined) return found.attemptId
  if (attempt === undefined) return null
  throw new InputError(`task ${task.name} has no attempt ${attempt}; there were ${task.attempt}`)
}
