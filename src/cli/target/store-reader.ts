// A reader over the stores of this folder.

import type { Context } from "./backends.ts"
import { InputError } from "../terminal/errors.ts"
import { findRun } from "./find-run.ts"
import type { Opened } from "./open.ts"
import type { LogRequest, Reader } from "./reader.ts"
import type { AttemptId, RunId } from "../../core/model/ids.ts"
import { nearest } from "../../core/model/nearest.ts"
import { taskEnded } from "../../core/model/status.ts"
import { TaskLog } from "../../objects/logs/logs.ts"
import { attemptPrefix } from "../../objects/objects.ts"
import type { Run, Task } from "../../protocol/client/client.ts"
import { attemptShapes, runShape, taskShape } from "../../protocol/api/shapes.ts"
import { NotFound } from "../../store/contract/errors.ts"
import type { RunRow, TaskRow } from "../../store/contract/store.ts"

const PAGE = 500
const LOOK_MS = 500

export const storeReader = (context: Context, opened: Opened): Reader => ({
  async listRuns(filter) {
    return (await opened.store.listRuns(filter)).map(runShape)
  },
  async findRun(text) {
    return runShape(await findRun(opened.store, text))
  },
  tasks: (run) => allTasks(opened, run),
  async explain(run, task) {
    const { explain, holderLives } = await import("../../engine/services/explain.ts")
    const { clock, processAlive } = context.backends
    const parts = { store: opened.store, lives: holderLives(opened.store, () => clock.now(), processAlive) }
    return explain(parts, run.id as RunId, task).catch((error: unknown) => {
      throw error instanceof NotFound ? new InputError(error.message) : error
    })
  },
  async *logBytes(request) {
    const { log, ended } = await openLog(context, opened, request)
    yield* log.bytes({ ended })
  },
  async *logLines(request) {
    const { log, ended } = await openLog(context, opened, request)
    for await (const { at, stream, line } of log.lines({ ended })) yield { at: new Date(at).toISOString(), stream, line }
  },
})

async function* allTasks({ store }: Opened, { id }: Run): AsyncGenerator<Task> {
  const { versionId } = (await store.getRun(id as RunId))!
  const workflow = await store.compiled(versionId)
  let after: number | undefined
  for (;;) {
    const page = await store.listTasks({ runId: id as RunId, limit: PAGE, ...(after === undefined ? {} : { after }) })
    for (const task of page) {
      const past = task.attempt > 1 ? await store.listAttempts(task.row) : []
      yield taskShape(task, workflow.nodes[task.node]!, { input: null, attempts: attemptShapes(task, past) })
    }
    after = page.at(-1)?.row
    if (after === undefined || page.length < PAGE) return
  }
}

// -- logs ----------------------------------------------------------------------------------------------------------------------

const openLog = async (
  context: Context,
  opened: Opened,
  { runId, task: name, path, attempt, follow }: LogRequest,
): Promise<{ log: TaskLog; ended: AbortSignal }> => {
  const run = (await opened.store.getRun(runId as RunId))!
  const task = await findTask(opened, run, name, path)
  const attemptId = await findAttempt(opened, task, attempt)
  if (attemptId === null) {
    throw new InputError(`task ${name} has not run${task.error === null ? "" : `: ${task.error}`}; it is ${task.status}`)
  }
  const over = new AbortController()
  if (follow && task.attemptId === attemptId && !taskEnded(task.status)) void watchEnd(context, opened, task, attemptId, over)
  else over.abort()
  return { log: new TaskLog(opened.objects, attemptPrefix(run.id, name, attemptId)), ended: over.signal }
}

/** Aborts when the attempt is over. Its end is told by the store alone, which another process writes: so, a look at times. */
const watchEnd = async (
  context: Context,
  { store }: Opened,
  task: TaskRow,
  attemptId: AttemptId,
  over: AbortController,
): Promise<void> => {
  try {
    for (;;) {
      await new Promise<void>((resolve) => void context.backends.clock.after(LOOK_MS, resolve))
      const now = await store.getTask({ runId: task.runId, name: task.name, path: task.path })
      if (now === null || now.attemptId !== attemptId || taskEnded(now.status)) break
    }
  } finally {
    over.abort()
  }
}

const findTask = async ({ store }: Opened, run: RunRow, name: string, path: string | undefined): Promise<TaskRow> => {
  const [first, second] = await store.listTasks({ runId: run.id, name, limit: 2 })
  if (first === undefined) throw new InputError(await unknownTask(store.compiled(run.versionId), run, name))
  if (path !== undefined) {
    const task = await store.getTask({ runId: run.id, name, path })
    if (task === null || task.kind !== "task") throw new InputError(`task ${name} of run ${run.id} has no instance ${path}`)
    return task
  }
  if (second !== undefined)
    throw new InputError(`task ${name} has several instances; say which with --index N (or --path 1.2 in groups)`)
  return first
}

const unknownTask = async (compiled: Promise<{ nodes: { name: string }[] }>, run: RunRow, name: string): Promise<string> => {
  const names = (await compiled).nodes.map((node) => node.name)
  if (names.includes(name)) return `task ${name} of run ${run.id} has no instances`
  const near = nearest(name, names)
  return `run ${run.id} has no task ${name}${near === undefined ? `; \`ork show ${run.id}\` lists its tasks` : `; did you mean ${near}?`}`
}

/** null: there was no attempt. */
const findAttempt = async ({ store }: Opened, task: TaskRow, attempt: number | undefined): Promise<AttemptId | null> => {
  if (task.attemptId !== null && (attempt === undefined || attempt === task.attempt)) return task.attemptId
  const past = await store.listAttempts(task.row)
  const found = attempt === undefined ? past.at(-1) : past.find((each) => each.attempt === attempt)
  if (found !== undefined) return found.attemptId
  if (attempt === undefined) return null
  throw new InputError(`task ${task.name} has no attempt ${attempt}; there were ${task.attempt}`)
}
