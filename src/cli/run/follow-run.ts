// `ork trigger --wait`: follows a run of a server by its events until it has finished. Ctrl-C stops following and leaves the run
// alone, unless `--cancel-on-interrupt` is given.

import type { Context } from "../target/context.ts"
import { EXIT_INTERRUPTED, exitCodeOf, printSummary } from "./outcome.ts"
import { onTerminationSignal } from "./signals.ts"
import { allItems, firstItems } from "../target/pages.ts"
import { printError } from "../terminal/output.ts"
import { createReporter } from "../progress/create-reporter.ts"
import type { Reporter } from "../progress/reporter.ts"
import { applyEvent, newTerminalRun, type RunEvent, type TerminalRun } from "../progress/terminal-state.ts"
import { serverSource, type ServerProgressSource } from "../progress/server-source.ts"
import type { RunId } from "../../core/model/ids.ts"
import { omitUndefined } from "../../core/values/omit-undefined.ts"
import { isRunClosed, isTaskFinished } from "../../core/model/status.ts"
import type { Progress } from "../../store/contract/store.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { type Client, ClientError, type Event, type Run, type Task, type Workflow } from "../../protocol/client/client.ts"
import { parseDefinition } from "../../definition/parse.ts"

export interface FollowRequest {
  client: Client
  run: Run
  workflow: Workflow
  /** Position in the event stream from before the run was requested. */
  position: string
  /** True if the request created the run, so that all of its events come after the position. */
  created: boolean
  json: boolean
  cancelOnInterrupt: boolean
}

/** Returns the exit code. */
export const followRun = async (context: Context, request: FollowRequest): Promise<number> => {
  const { client, run, json } = request
  const view = newTerminalRun(run.id, await compiledWorkflow(client, request.workflow, run))
  const source = serverSource(client, run.id)
  const reporter = await createReporter(context, source, view, { json, concurrency: 1 })
  const interrupt = listenForSignals(request, reporter)
  try {
    const appliedEnds = request.created ? new Set<string>() : applyTasks(view, run, await listTasks(client, run.id))
    reporter.start()
    const withLogs = context.stdout.isTTY && !json
    const finished = await followEvents({ request, view, source, reporter, appliedEnds, withLogs, signal: interrupt.left })
    reporter.stop()
    if (finished === null) {
      printError(context, `ork: left run ${run.id}, which continues; \`ork show\` shows it, \`ork cancel\` cancels it`)
      return EXIT_INTERRUPTED
    }
    await printSummary(context, source, view, finished, json)
    return exitCodeOf(finished, interrupt.cancelRequested())
  } finally {
    interrupt.stop()
    reporter.stop()
  }
}

interface Following {
  request: FollowRequest
  view: TerminalRun
  source: ServerProgressSource
  reporter: Reporter
  /** Keys of task ends that the view already contains. */
  appliedEnds: Set<string>
  withLogs: boolean
  signal: AbortSignal
}

/** Returns the run when it and its hooks have finished, or null if `signal` aborts before. */
const followEvents = async (following: Following): Promise<Run | null> => {
  const { request, view, source, reporter, withLogs: logs, signal } = following
  const { client, run, position: after } = request
  if (!request.created && isRunClosed(run.status)) return run
  /** Hooks to wait for; null until the run has ended. */
  let hooks: string[] | null = null
  for await (const item of client.events({ runId: run.id, after, logs, signal })) {
    if (item.type === "log") source.addLogLine(item.line)
    if (item.type === "gap") {
      reporter.warn("some events have expired; changes in between are not shown")
      const current = await client.getRun(run.id)
      if (isRunClosed(current.status)) return current
    }
    if (item.type !== "event") continue
    reportEvent(following, item.event)
    if (item.event.event === "run") hooks = isRunClosed(view.status) ? await listHooks(client, view) : null
    if (hooks?.every((name) => isTaskFinished(view.byName.get(name)?.ownStatus ?? "success")) === true)
      return client.getRun(run.id)
  }
  return null
}

const reportEvent = ({ view, reporter, appliedEnds }: Following, event: Event): void => {
  const runEvent = toRunEvent(event)
  if (runEvent === null || appliedEnds.delete(endKey(runEvent))) return
  applyEvent(view, runEvent)
  reporter.event(runEvent)
}

/** Returns the hooks that the run's end started; the others have no tasks. Marks hooks without events as pending. */
const listHooks = async (client: Client, view: TerminalRun): Promise<string[]> => {
  const started: string[] = []
  for (const task of view.tasks) {
    if (!task.hook || (await client.listTasks(view.runId, { name: task.name })).items.length === 0) continue
    task.ownStatus ??= "pending"
    started.push(task.name)
  }
  return started
}

/** Returns null for events of jobs. */
const toRunEvent = (event: Event): RunEvent | null => {
  if (event.event === "job" || event.run_id === null) return null
  const { error, total, waiting } = event
  return omitUndefined({
    type: event.event,
    runId: event.run_id as RunId,
    status: event.status as RunEvent["status"],
    at: event.at,
    task: event.task ?? undefined,
    path: event.path ?? undefined,
    attempt: event.attempt ?? undefined,
    error,
    availableAt: event.available_at,
    total,
    waiting,
    progress: event.progress as Progress | undefined,
  })
}

// -- signals -------------------------------------------------------------------------------------------------------------------

/** `left` aborts when a signal ends the following of the run. */
const listenForSignals = ({ client, run, cancelOnInterrupt }: FollowRequest, reporter: Reporter) => {
  const left = new AbortController()
  let cancelRequested = false
  const cancel = async (): Promise<void> => {
    cancelRequested = true
    reporter.note("cancelling… press Ctrl-C again to leave")
    await client.cancelRun(run.id).catch((error: unknown) => {
      // A run that has just ended cannot be cancelled.
      if (!(error instanceof ClientError && error.code === "CONFLICT")) reporter.warn(`could not cancel: ${String(error)}`)
    })
  }
  const leave = (): void => left.abort()
  const stop = onTerminationSignal(cancelOnInterrupt ? () => void cancel() : leave, leave)
  return { left: left.signal, cancelRequested: () => cancelRequested, stop }
}

// -- initial state -------------------------------------------------------------------------------------------------------------

const listTasks = (client: Client, runId: string): Promise<Task[]> => firstItems((page) => client.listTasks(runId, page))

/** Returns a key for the end of an attempt, "" for other events. */
const endKey = ({ type, task, path, attempt, status }: RunEvent): string =>
  type === "task" && isTaskFinished(status) ? `${task}/${path}/${attempt}` : ""

/** Applies the current state of the run's tasks to the view. Returns the keys of the ends that it applied. */
const applyTasks = (view: TerminalRun, run: Run, tasks: readonly Task[]): Set<string> => {
  const appliedEnds = new Set<string>()
  if (run.started_at !== null) applyEvent(view, { type: "run", runId: run.id as RunId, status: "running", at: run.started_at })
  for (const task of tasks) {
    const about = { type: "task", runId: run.id as RunId, task: task.name, path: task.path, attempt: task.attempt } as const
    if (task.started_at !== null) applyEvent(view, { ...about, status: "running", at: task.started_at })
    const at = task.finished_at ?? task.started_at
    if (!isTaskFinished(task.status) || at === null) continue
    const end: RunEvent = { ...about, status: task.status, at, ...(task.error !== null && { error: task.error }) }
    applyEvent(view, end)
    appliedEnds.add(endKey(end))
  }
  for (const task of view.tasks) if (task.fanLevels > 0) task.total = tasks.filter(({ name }) => name === task.name).length
  return appliedEnds
}

// -- workflow ------------------------------------------------------------------------------------------------------------------

/** Compiles the version that the run uses. Returns a workflow without tasks if this Ork cannot compile it. */
const compiledWorkflow = async (client: Client, workflow: Workflow, run: Run): Promise<CompiledWorkflow> => {
  const text = workflow.version === run.version ? workflow.definition : await findDefinition(client, run)
  const parsed = parseDefinition(text, { format: text.trimStart().startsWith("{") ? "json" : "yaml" })
  if (parsed.ok) return parsed.workflow
  return { format: 1, name: run.workflow, tags: [], params: [], schedules: [], notify: [], include: [], nodes: [] }
}

/** Returns "" if the version does not exist any more. */
const findDefinition = async (client: Client, run: Run): Promise<string> => {
  const versions = allItems((page) => client.listVersions(run.workflow, page))
  for await (const { version, definition } of versions) if (version === run.version) return definition
  return ""
}
