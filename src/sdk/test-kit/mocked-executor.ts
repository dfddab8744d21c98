// An executor of a test: calls the mock of a task if there is one, and otherwise another executor.

import type { AttemptResult } from "../../core/model/change.ts"
import type { Json } from "../../core/values/json.ts"
import type { Clock } from "../../core/model/ports.ts"
import { BUILTIN_EXECUTORS } from "../../core/model/workflow.ts"
import { isWaitingExecutor } from "../../core/model/waiting-on.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../../executors/executor.ts"
import { inputValue } from "../../executors/input.ts"
import { ErrorReport, jsonOf } from "../../executors/node/function-result.ts"
import { failureOf, storeOutputText } from "../../executors/pool/attempt-output.ts"
import type { FunctionError } from "../../executors/pool/frames.ts"
import { stoppedResult } from "../../executors/stopped.ts"
import { writeArtifactList } from "../../objects/artifacts/artifact-list.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { type Duration, toMs } from "../duration.ts"
import type { ProgramExecutor } from "../durable/program-executor.ts"

/** An attempt as a mock sees it. */
export interface MockContext {
  /** Name of the task in its workflow; of a job, of its definition. */
  readonly task: string
  /** Index of the item in each fan-out around and at the task, such as `1.2`; empty outside of fan-outs. */
  readonly path: string
  /** Counts from 1. */
  readonly attempt: number
  /** Aborted when the attempt is cancelled or times out. */
  readonly signal: AbortSignal
  /** Waits on the clock of the test. Rejects when the attempt is stopped. */
  sleep(duration: Duration): Promise<void>
}

export type MockFunction = (input: Json, context: MockContext) => unknown

/** Thrown by a mock: the worker of the attempt is gone, and the attempt is lost. */
export class LostWorker extends Error {
  override readonly name = "LostWorker"
}

/** Returns the mock of a task; undefined: it has none. */
export type FindMock = (names: readonly string[]) => MockFunction | undefined

export interface MockOptions {
  find: FindMock
  objects: ObjectStore
  clock: Clock
}

/** Returns the executors of a test: that of functions, and in place of every other one an executor with mocks only. */
export const mockedExecutors = (functions: ProgramExecutor, options: MockOptions): Executor[] => [
  new MockedExecutor(functions.name, functions, options),
  ...BUILTIN_EXECUTORS.filter((name) => !isWaitingExecutor(name)).map((name) => new MockedExecutor(name, null, options)),
]

class MockedExecutor implements Executor {
  readonly name: string
  readonly folderless = true
  readonly #real: ProgramExecutor | null
  readonly #options: MockOptions

  constructor(name: string, real: ProgramExecutor | null, options: MockOptions) {
    this.name = name
    this.#real = real
    this.#options = options
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { find, objects, clock } = this.#options
    const mock = find(namesOf(assignment))
    if (mock === undefined && this.#real !== null) return await this.#real.launch(assignment, context)
    const { signal } = context
    const startedAt = clock.now()
    context.started({ at: startedAt })
    const end = await Promise.race([this.#call(mock, assignment, signal), aborted(signal)])
    const base = { startedAt, finishedAt: clock.now() }
    if (end === null) return stoppedResult(signal.reason as StopReason, base, assignment)
    if (end === "lost") return stoppedResult("lost", base, assignment)
    if ("error" in end) return { ...base, ...failureOf(JSON.parse(end.error.json) as FunctionError, assignment.secrets) }
    const stored = await storeOutputText(objects, end.json, assignment)
    // A mock writes no files.
    if (assignment.artifacts !== undefined) await writeArtifactList(objects, assignment.prefix, [])
    return "error" in stored
      ? { ...base, state: "failed", error: stored.error }
      : { ...base, state: "success", output: stored.output }
  }

  async #call(mock: MockFunction | undefined, assignment: Assignment, signal: AbortSignal): Promise<MockEnd> {
    const { clock } = this.#options
    const { path, attempt, maxOutputBytes } = assignment
    const task = namesOf(assignment)[0]!
    const sleep = (duration: Duration): Promise<void> => sleepOn(clock, toMs(duration, "duration"), signal)
    try {
      if (mock === undefined) throw new Error(`a test does not run ${this.name} tasks; give ${task} a mock`)
      const input = await (this.#real === null ? inputValue(assignment) : this.#real.inputOf(assignment))
      return { json: jsonOf(await mock(input as Json, { task, path, attempt, signal, sleep }), maxOutputBytes) }
    } catch (error) {
      return error instanceof LostWorker ? "lost" : { error: new ErrorReport(error) }
    }
  }
}

type MockEnd = { json: string } | { error: ErrorReport } | "lost"

/** Resolves when the attempt is stopped: a test does not wait for a mock that goes on. */
const aborted = (signal: AbortSignal): Promise<null> =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(null), { once: true }))

/**
 * Returns the names by which a mock may replace a task: its own, then that of its function. A function that is all of its run has only
 * that.
 */
const namesOf = ({ node }: Assignment): string[] => {
  const called = node.function === undefined ? [] : [node.function]
  return node.paramsAsInput === true ? called : [node.name, ...called]
}

const sleepOn = (clock: Clock, ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const onAbort = (): void => {
      cancel()
      reject(new Error("the attempt was stopped"))
    }
    const cancel = clock.after(ms, () => {
      signal.removeEventListener("abort", onAbort)
      resolve()
    })
    signal.addEventListener("abort", onAbort, { once: true })
  })
