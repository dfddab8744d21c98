// Runs a case: the real engine in virtual time, with a mock in place of what each task runs.

import type { Json } from "../../core/values/json.ts"
import { parseDuration } from "../../core/values/quantities.ts"
import { isRunClosed, isTaskFinished, type RunStatus } from "../../core/model/status.ts"
import { HOOK_EVENTS } from "../../core/model/workflow.ts"
import { FatalError } from "../../executors/errors.ts"
import { openKit, type MockContext, type TaskState, type TestOrk } from "../../sdk/test.ts"
import type { CaseFile, MockedAttempt, TestCase } from "./read-cases.ts"
import { mockableWorkflow } from "./mockable-workflow.ts"
import { keyOf } from "./task-keys.ts"

/** The record of a run: the states of its tasks, their order and attempts. */
export interface CaseResult {
  status: RunStatus
  error: string | null
  /** Rows of the run by key; a fan-out or group is a row too. */
  tasks: ReadonlyMap<string, TaskState>
  /** Keys of the tasks in the order of their first attempts. */
  order: string[]
  durationMs: number
}

/** Time that passes before the end of a run is checked again, at first and at most. */
const FIRST_STEP_MS = 1000
const MAX_STEP_MS = 86_400_000
const DEFAULT_NOW = "2026-01-01T00:00:00Z"

export const runCase = async ({ definition, workflow }: CaseFile, given: TestCase): Promise<CaseResult> => {
  const order = new Set<string>()
  const call = async (_: Json, context: MockContext): Promise<Json> => {
    const key = keyOf(workflow, context.task, context.path)
    order.add(key)
    return await play(mockOf(given, key, context), context)
  }
  await using ork = await openKit({
    run: [definition],
    now: given.now ?? DEFAULT_NOW,
    otherwise: () => call,
    prepare: (compiled) => mockableWorkflow(compiled, (approval) => approval in given.mocks),
  })
  const startedAt = ork.now().getTime()
  const run = await ork.enqueue(definition, given.params)
  const rows = await untilEnd(ork, run.id, startedAt + given.limitMs)
  const { status, error } = (await ork.get(run.id))!
  const tasks = new Map(rows.map((task) => [keyOf(workflow, task.name, task.path), task]))
  const endedAt = Math.max(startedAt, ...rows.filter(isNoHook).map(({ finishedAt }) => finishedAt?.getTime() ?? 0))
  return { status: status as RunStatus, error, tasks, order: [...order], durationMs: endedAt - startedAt }
}

/** Lets time pass until the run has closed and its hooks have ended, or until the limit. Returns its tasks. */
export const untilEnd = async (ork: TestOrk, runId: string, limit: number): Promise<TaskState[]> => {
  for (let stepMs = 0; ork.now().getTime() <= limit; stepMs = Math.min(Math.max(FIRST_STEP_MS, 2 * stepMs), MAX_STEP_MS)) {
    await ork.advance(stepMs)
    const run = await ork.get(runId)
    if (!isRunClosed(run!.status as RunStatus)) continue
    const tasks = await ork.tasks(runId)
    if (tasks.every(({ status }) => isTaskFinished(status))) return tasks
  }
  return await ork.tasks(runId)
}

const isNoHook = ({ name }: TaskState): boolean => !HOOK_EVENTS.some((event) => name.startsWith(`${event}.`))

/** Returns the mock of an attempt: that of its instance, else that of its task; of a list, the entry of its number or the last. */
export const mockOf = (
  { mocks }: Pick<TestCase, "mocks">,
  key: string,
  { task, attempt }: Pick<MockContext, "task" | "attempt">,
): MockedAttempt => {
  const attempts = [mocks[key] ?? mocks[task] ?? {}].flat()
  return attempts[Math.min(attempt, attempts.length) - 1]!
}

const play = async ({ output = null, error, fatal, duration }: MockedAttempt, context: MockContext): Promise<Json> => {
  if (duration !== undefined) await context.sleep(parseDuration(duration)!)
  if (error === undefined) return output
  throw fatal === true ? new FatalError(error) : new Error(error)
}
