// `ork trigger --wait`: a run of a server, watched to its end by its events. Ctrl-C leaves it alone, unless asked to cancel.

import type { Context } from "../target/backends.ts"
import { EXIT_INTERRUPTED, exitCodeOf, makeReporter, summarize } from "./follow.ts"
import { onInterrupt } from "./interrupts.ts"
import { printError } from "../terminal/output.ts"
import { applyEvent, newView, type RunEvent, type RunView } from "../progress/model.ts"
import type { Reporter } from "../progress/reporter.ts"
import { serverSource, type ServerSource } from "./server-source.ts"
import type { RunId } from "../../core/model/ids.ts"
import { runEnded, taskEnded } from "../../core/model/status.ts"
import type { Progress } from "../../store/contract/store.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import {
  type Client,
  ClientError,
  type Event,
  everyItem,
  type Run,
  take,
  type Task,
  type Workflow,
} from "../../protocol/client/client.ts"
import { parseDefinition } from "../../definition/parse.ts"

export interface WatchRequest {
  client: Client
  run: Run
  workflow: Workflow
  /** Of the events, from before the run was asked for. */
  position: string
  /** Made just now: all of its events are after the position. */
  fresh: boolean
  json: boolean
  cancelOnInterrupt: boolean
}

/** Gives the exit code. */
export const watchRun = async (context: Context, request: WatchRequest): Promise<number> => {
  const { client, run, json } = request
  const view = newView(run.id, await compiledOf(client, request.workflow, run))
  const source = serverSource(client, run.id)
  const reporter = await makeReporter(context, source, view, { json, concurrency: 1 })
  const left = new AbortController()
  const interrupts = listen(request, reporter, left)
  try {
    const known = request.fresh ? new Set<string>() : seed(view, run, await tasksOf(client, run.id))
    reporter.start()
    const logs = context.stdout.isTTY && !json
    const ended = await follow({ request, view, source, reporter, known, logs, signal: left.signal })
    reporter.stop()
    if (ended === null) {
      printError(context, `ork: left run ${run.id}, which goes on; \`ork show\` shows it, \`ork cancel\` ends it`)
      return EXIT_INTERRUPTED
    }
    await summarize(context, source, view, ended, json)
    return exitCodeOf(ended, interrupts.heard())
  } finally {
    interrupts.stop()
    reporter.stop()
  }
}

interface Following {
  request: WatchRequest
  view: RunView
  source: ServerSource
  reporter: Reporter
  /** Ends that the view has seen already. */
  known: Set<string>
  logs: boolean
  signal: AbortSignal
}

/** The run at its end, with its hooks; null: left before. */
const follow = async ({ request, view, source, reporter, known, logs, signal }: Following): Promise<Run | null> => {
  const { client, run, position: after } = request
  if (!request.fresh && runEnded(run.status)) return run
  /** Hooks whose end is still to be told; null: the run has not ended. */
  let hooks: string[] | null = null
  for await (const item of client.events({ runId: run.id, after, logs, signal })) {
    if (item.type === "log") source.see(item.line)
    if (item.type === "gap") {
      reporter.warn("some events are no longer kept; what happened meanwhile is not shown")
      const now = await client.getRun(run.id)
      if (runEnded(now.status)) return now
    }
    if (item.type !== "event") continue
    tell(view, reporter, known, item.event)
    if (item.event.event === "run") hooks = runEnded(view.status) ? await calledHooks(client, view) : null
    if (hooks?.every((name) => taskEnded(view.byName.get(name)?.own ?? "success")) === true) return client.getRun(run.id)
  }
  return null
}

const tell = (view: RunView, reporter: Reporter, known: Set<string>, event: Event): void => {
  const told = toRunEvent(event)
  if (told === null || known.delete(endKey(told))) return
  applyEvent(view, told)
  reporter.event(told)
}

/** Hooks that the run's end did not call for have no tasks. One that has not been told of yet is about to be. */
const calledHooks = async (client: Client, view: RunView): Promise<string[]> => {
  const called: string[] = []
  for (const task of view.tasks) {
    if (!task.hook || (await client.listTasks(view.runId, { name: task.name })).items.length === 0) continue
    task.own ??= "pending"
    called.push(task.name)
  }
  return called
}

const toRunEvent = (event: Event): RunEvent | null => {
  if (event.event === "job" || event.run_id === null) return null
  return {
    type: event.event,
    runId: event.run_id as RunId,
    status: event.status as RunEvent["status"],
    at: event.at,
    ...(event.task !== null && { task: event.task }),
    ...(event.path !== null && { path: event.path }),
    ...(event.attempt !== null && { attempt: event.attempt }),
    ...(event.error !== undefined && { error: event.error }),
    ...(event.available_at !== undefined && { availableAt: event.available_at }),
    ...(event.total !== undefined && { total: event.total }),
    ...(event.waiting !== undefined && { waiting: event.waiting }),
    ...(event.progress !== undefined && { progress: event.progress as Progress }),
  }
}

// -- Ctrl-C --------------------------------------------------------------------------------------------------------------------

const listen = ({ client, run, cancelOnInterrupt }: WatchRequest, reporter: Reporter, left: AbortController) => {
  let heard = false
  const cancel = async (): Promise<void> => {
    heard = true
    reporter.note("cancelling… press Ctrl-C again to leave")
    await client.cancelRun(run.id).catch((error: unknown) => {
      // A run that ended in this very moment needs no cancel.
      if (!(error instanceof ClientError && error.code === "CONFLICT")) reporter.warn(`could not cancel: ${String(error)}`)
    })
  }
  const leave = (): void => left.abort()
  return { stop: onInterrupt(cancelOnInterrupt ? () => void cancel() : leave, leave), heard: () => heard }
}

// -- what was before -----------------------------------------------------------------------------------------------------------

const PAGE = 100

const tasksOf = (client: Client, runId: string): Promise<Task[]> =>
  take(everyItem((cursor) => client.listTasks(runId, { limit: PAGE, ...(cursor !== undefined && { cursor }) })))

const endKey = ({ type, task, path, attempt, status }: RunEvent): string =>
  type === "task" && taskEnded(status) ? `${task}/${path}/${attempt}` : ""

/** Tells the view what its tasks have come to; gives the ends that were told. */
const seed = (view: RunView, run: Run, tasks: readonly Task[]): Set<string> => {
  const known = new Set<string>()
  if (run.started_at !== null) applyEvent(view, { type: "run", runId: run.id as RunId, status: "running", at: run.started_at })
  for (const task of tasks) {
    const about = { type: "task", runId: run.id as RunId, task: task.name, path: task.path, attempt: task.attempt } as const
    if (task.started_at !== null) applyEvent(view, { ...about, status: "running", at: task.started_at })
    const at = task.finished_at ?? task.started_at
    if (!taskEnded(task.status) || at === null) continue
    const end: RunEvent = { ...about, status: task.status, at, ...(task.error !== null && { error: task.error }) }
    applyEvent(view, end)
    known.add(endKey(end))
  }
  for (const task of view.tasks) if (task.fans > 0) task.total = tasks.filter(({ name }) => name === task.name).length
  return known
}

// -- the workflow --------------------------------------------------------------------------------------------------------------

/** The definition that the run is pinned to. One that this Ork cannot read gives a view without tasks. */
const compiledOf = async (client: Client, workflow: Workflow, run: Run): Promise<CompiledWorkflow> => {
  const text = workflow.version === run.version ? workflow.definition : await definitionOf(client, run)
  const parsed = parseDefinition(text, { format: text.trimStart().startsWith("{") ? "json" : "yaml" })
  if (parsed.ok) return parsed.workflow
  return { format: 1, name: run.workflow, tags: [], params: [], schedules: [], notify: [], include: [], nodes: [] }
}

const definitionOf = async (client: Client, run: Run): Promise<string> => {
  const versions = everyItem((cursor) =>
    client.listVersions(run.workflow, { limit: PAGE, ...(cursor !== undefined && { cursor }) }),
  )
  for await (const { version, definition } of versions) if (version === run.version) return definition
  return ""
}
