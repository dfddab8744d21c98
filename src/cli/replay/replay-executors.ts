// The executors of a replay: one that returns recorded results, and in place of the replayed task's executor one that runs it and prints
// its log.

import { type ExportedRun, type ExportedTask, RECORDED_EXECUTOR } from "./recorded-run.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { AttemptId, RunId } from "../../core/model/ids.ts"
import type { Json } from "../../core/values/json.ts"
import type { Clock } from "../../core/model/ports.ts"
import { writeOutput } from "../../engine/attempts/outputs.ts"
import type { TaskClaim } from "../../store/contract/store.ts"
import type { Assignment, Executor, LaunchContext } from "../../executors/executor.ts"
import { writeArtifactList } from "../../objects/artifacts/artifact-list.ts"
import { TaskLog } from "../../objects/logs/task-log.ts"
import type { ObjectStore } from "../../objects/objects.ts"

export interface ReplayOptions {
  run: ExportedRun
  task: ExportedTask
  objects: ObjectStore
  clock: Clock
  print(stream: "stdout" | "stderr", line: string): void
  /** Called with the input before the task starts. */
  onInput(input: Json): void
}

/** Returns executors of their own for the replay; `own` are those of this machine. */
export const replayExecutors = (
  own: ReadonlyMap<string, Executor>,
  executor: string,
  options: ReplayOptions,
): ReadonlyMap<string, Executor> => {
  const recorded = new RecordedExecutor(options)
  const real = own.get(executor)
  return new Map<string, Executor>([
    ...own,
    [RECORDED_EXECUTOR, recorded],
    ...(real === undefined ? [] : [[executor, new ReplayedExecutor(real, recorded, options)] as const]),
  ])
}

/** Returns the ids of an attempt as the engine names them. */
const fenceOf = ({ runId, attemptId }: Assignment): Pick<TaskClaim, "runId" | "attemptId"> => ({
  runId: runId as RunId,
  attemptId: attemptId as AttemptId,
})

class RecordedExecutor implements Executor {
  readonly name = RECORDED_EXECUTOR
  readonly folderless = true
  readonly #options: ReplayOptions
  readonly #tasks: ReadonlyMap<string, ExportedTask>

  constructor(options: ReplayOptions) {
    this.#options = options
    this.#tasks = new Map(options.run.tasks.map((task) => [`${task.name} ${task.path}`, task]))
  }

  async launch(assignment: Assignment, { started }: LaunchContext): Promise<AttemptResult> {
    const { objects, clock } = this.#options
    const at = clock.now()
    started({ at })
    const base = { startedAt: at, finishedAt: at }
    const task = this.#tasks.get(`${assignment.task} ${assignment.path}`)
    if (task?.status !== "success") {
      const error = task?.error ?? `it was ${task?.status ?? "missing"} in the exported run`
      return { ...base, state: "failed", error, retryable: false }
    }
    // The files of other tasks are not part of an export.
    if (assignment.artifacts !== undefined) await writeArtifactList(objects, assignment.prefix, [])
    const output = await writeOutput(
      { objects, ...assignment },
      fenceOf(assignment),
      assignment.task,
      (task.output ?? null) as Json,
    )
    return { ...base, state: "success", output }
  }
}

/** Runs the replayed task, and returns recorded results for the other instances of its fan-out. */
class ReplayedExecutor implements Executor {
  readonly name: string
  readonly #real: Executor
  readonly #recorded: RecordedExecutor
  readonly #options: ReplayOptions

  constructor(real: Executor, recorded: RecordedExecutor, options: ReplayOptions) {
    this.name = real.name
    this.#real = real
    this.#recorded = recorded
    this.#options = options
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { task, objects, print, onInput } = this.#options
    if (assignment.path !== task.path) return this.#recorded.launch(assignment, context)
    onInput(assignment.input)
    const ended = new AbortController()
    const printing = (async () => {
      const lines = new TaskLog(objects, assignment.prefix).lines({ ended: ended.signal })
      for await (const { stream, line } of lines) print(stream, line)
    })()
    try {
      return await this.#real.launch(assignment, context)
    } finally {
      ended.abort()
      await printing
    }
  }

  start(): Promise<void> {
    return this.#real.start?.() ?? Promise.resolve()
  }

  stop(): Promise<void> {
    return this.#real.stop?.() ?? Promise.resolve()
  }
}
