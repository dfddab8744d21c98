// Runs a case: the real engine in virtual time, with a mock in place of what each task runs.

import { FUNCTION_EXECUTOR } from "../../core/model/function.ts"
import type { Json } from "../../core/model/json.ts"
import { parseDuration } from "../../core/model/quantities.ts"
import { isRunClosed, isTaskFinished, type RunStatus } from "../../core/model/status.ts"
import { type CompiledWorkflow, HOOK_EVENTS, type Node } from "../../core/model/workflow.ts"
import { FatalError } from "../../executors/errors.ts"
import { openKit, type MockContext, type TaskState, type TestOrk } from "../../sdk/test.ts"
import type { CaseFile, MockedAttempt, TestCase } from "./read-cases.ts"
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
    prepare: (compiled) => prepare(compiled, given),
  })
  const startedAt = ork.now().getTime()
  const run = await ork.enqueue(definition, given.params)
  await untilEnd(ork, run.id, startedAt + given.limitMs)
  const { status, error } = (await ork.get(run.id))!
  const rows = await ork.tasks(run)
  const tasks = new Map(rows.map((task) => [keyOf(workflow, task.name, task.path), task]))
  const endedAt = Math.max(startedAt, ...rows.filter(isNoHook).map(({ finishedAt }) => finishedAt?.getTime() ?? 0))
  return { status: status as RunStatus, error, tasks, order: [...order], durationMs: endedAt - startedAt }
}

/** Lets time pass until the run has closed and its hooks have ended, or until the limit of the case. */
const untilEnd = async (ork: TestOrk, runId: string, limit: number): Promise<void> => {
  for (let stepMs = 0; ork.now().getTime() <= limit; stepMs = Math.min(Math.max(FIRST_STEP_MS, 2 * stepMs), MAX_STEP_MS)) {
    await ork.advance(stepMs)
    const run = await ork.get(runId)
    if (!isRunClosed(run!.status as RunStatus)) continue
    if ((await ork.tasks(runId)).every(({ status }) => isTaskFinished(status))) return
  }
}

const isNoHook = ({ name }: TaskState): boolean => !HOOK_EVENTS.some((event) => name.startsWith(`${event}.`))

/** Returns the mock of an attempt: that of its instance, else that of its task; of a list, the entry of its number or the last. */
const mockOf = ({ mocks }: TestCase, key: string, { task, attempt }: MockContext): MockedAttempt => {
  const attempts = [mocks[key] ?? mocks[task] ?? {}].flat()
  return attempts[Math.min(attempt, attempts.length) - 1]!
}

const play = async ({ output = null, error, fatal, duration }: MockedAttempt, context: MockContext): Promise<Json> => {
  if (duration !== undefined) await context.sleep(parseDuration(duration)!)
  if (error === undefined) return output
  throw fatal === true ? new FatalError(error) : new Error(error)
}

/**
 * Lets a mock play what a test does not have: functions, other workflows, and approvals with a mock. Secrets have any value, and every
 * label is there.
 */
const prepare = (workflow: CompiledWorkflow, { mocks }: TestCase): CompiledWorkflow => ({
  ...workflow,
  nodes: workflow.nodes.map((node) => {
    const { secretFields: _, ...rest } = node
    return { ...rest, executor: executorOf(node, mocks), labels: [], env: withoutSecrets(node.env) }
  }),
})

const executorOf = ({ executor, name }: Node, mocks: TestCase["mocks"]): string => {
  const isPlayed = executor === FUNCTION_EXECUTOR || executor === "workflow" || (executor === "approval" && name in mocks)
  return isPlayed ? "process" : executor
}

const withoutSecrets = (env: Node["env"]): Node["env"] =>
  Object.fromEntries(
    Object.entries(env).map(([name, value]) => [name, "secret" in value ? { value: { lit: `(${value.secret})` } } : value]),
  )
