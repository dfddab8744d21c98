// `ork logs RUN TASK`: what a task wrote, the latest attempt unless another is asked for; with `-f` until it ends.

import type { Context } from "../backends.ts"
import { InputError } from "../errors.ts"
import { findRun } from "../find-run.ts"
import { type Opened, withStores } from "../open.ts"
import { print } from "../output.ts"
import type { StoreFlags } from "../settings.ts"
import type { AttemptId } from "../../core/ids.ts"
import { nearest } from "../../core/nearest.ts"
import { taskEnded } from "../../core/status.ts"
import { TaskLog } from "../../objects/logs.ts"
import { attemptPrefix } from "../../objects/objects.ts"
import type { RunRow, TaskRow } from "../../store/store.ts"

export interface LogsOptions extends StoreFlags {
  index?: string
  path?: string
  attempt?: string
  follow?: boolean
  json?: boolean
}

export const logs = (context: Context, runText: string, name: string, options: LogsOptions): Promise<number> => {
  const path = pathOf(options)
  const attempt = wholeNumber("--attempt", options.attempt, 1)
  return withStores(context, options, async (opened) => {
    const run = await findRun(opened.store, runText)
    const task = await findTask(opened, run, name, path)
    const attemptId = await findAttempt(opened, task, attempt)
    if (attemptId === null) {
      throw new InputError(`task ${name} has not run${task.error === null ? "" : `: ${task.error}`}; it is ${task.status}`)
    }
    const log = new TaskLog(opened.objects, attemptPrefix(run.id, name, attemptId))
    const over = new AbortController()
    if (options.follow === true && task.attemptId === attemptId && !taskEnded(task.status)) {
      void watchEnd(context, opened, task, attemptId, over)
    } else over.abort()
    await copy(context, log, over.signal, options.json === true)
    return 0
  })
}

const copy = async (context: Context, log: TaskLog, ended: AbortSignal, json: boolean): Promise<void> => {
  if (!json) {
    for await (const bytes of log.bytes({ ended })) context.stdout.write(bytes)
    return
  }
  for await (const { at, stream, line } of log.lines({ ended })) {
    print(context, JSON.stringify({ at: new Date(at).toISOString(), stream, line }))
  }
}

const LOOK_MS = 500

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

const pathOf = (options: LogsOptions): string | undefined => {
  if (options.path !== undefined) {
    if (!/^\d+(\.\d+)*$/.test(options.path)) throw new InputError(`--path: "${options.path}" is not a path such as 3 or 1.2`)
    return options.path
  }
  const index = wholeNumber("--index", options.index, 0)
  return index === undefined ? undefined : String(index)
}

const wholeNumber = (flag: string, text: string | undefined, min: number): number | undefined => {
  if (text === undefined) return undefined
  const number = Number(text)
  if (!/^\d+$/.test(text) || number < min) throw new InputError(`${flag}: "${text}" is not a whole number from ${min} up`)
  return number
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
