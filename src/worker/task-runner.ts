// Runs an assigned task: prepares its folders, runs it on its executor, sends its log and output, and reports its result.

import { existsSync } from "node:fs"
import { rmdir } from "node:fs/promises"
import { dirname } from "node:path"
import { type AssignedTask, untilStopped } from "./tasks/assigned-task.ts"
import type { TaskTable } from "./tasks/task-table.ts"
import type { LogShipper } from "./connection/log-shipper.ts"
import { uploadFiles } from "./connection/upload-files.ts"
import type { Registration } from "./connection/registration.ts"
import type { Reporter } from "./connection/reporter.ts"
import type { ServerClient } from "./connection/server-client.ts"
import type { TaskFolders } from "./folders/task-folders.ts"
import type { AttemptResult } from "../core/model/change.ts"
import { messageOf } from "../core/values/error-message.ts"
import type { Clock } from "../core/model/ports.ts"
import { AttemptRunner, type RunnerOptions } from "../engine/attempts/attempt-runner.ts"
import { OutputReader, outputProblem } from "../engine/attempts/outputs.ts"
import { lazyEvaluator } from "../engine/gate/lazy-evaluator.ts"
import type { Logger } from "../engine/ports.ts"
import { storeArtifacts } from "../objects/artifacts/store-artifacts.ts"
import type { Executor } from "../executors/executor.ts"
import type { ObjectStore } from "../objects/objects.ts"

export interface TaskRunnerOptions {
  client: ServerClient
  folders: TaskFolders
  tasks: TaskTable
  executors: ReadonlyMap<string, Executor>
  objects: ObjectStore & Required<Pick<ObjectStore, "localPath">>
  clock: Clock
  log: Logger
}

/** A registration with its open streams to the server. */
export interface Connection {
  registration: Registration
  reporter: Reporter
  logs: LogShipper
}

export class TaskRunner {
  readonly #options: TaskRunnerOptions
  readonly #runner: AttemptRunner
  readonly #evaluator = lazyEvaluator()

  constructor(options: TaskRunnerOptions) {
    this.#options = options
    const { executors, objects, clock } = options
    const checking = { outputs: new OutputReader(objects), evaluator: this.#evaluator }
    const checkOutput: RunnerOptions["checkOutput"] = (schema, output) => outputProblem(checking, schema, output)
    const storeArtifactsOf: RunnerOptions["storeArtifacts"] = (assignment) => storeArtifacts(objects, assignment)
    this.#runner = new AttemptRunner({ executors, clock, checkOutput, storeArtifacts: storeArtifactsOf })
  }

  async stop(): Promise<void> {
    await this.#evaluator.stop()
  }

  async run(task: AssignedTask, connection: Connection): Promise<void> {
    const { folders, tasks } = this.#options
    const { registration, reporter, logs } = connection
    const result = await this.#execute(task, connection)
    if (!this.#isFolderless(task)) folders.release(task)
    tasks.freeSlot(task)
    try {
      if (!task.abandoned) await logs.finish(task)
      const onRejected = (): void => tasks.abandonTask(task)
      const reported = task.abandoned ? result : await uploadFiles(task, registration, result, { ...this.#options, onRejected })
      await this.#removeFiles(task)
      if (task.abandoned || registration.ended.aborted) tasks.remove(task)
      else reporter.ended(task, reported)
    } catch (error) {
      if (!registration.ended.aborted) reporter.ended(task, this.#runner.failed(messageOf(error), true))
    }
  }

  async #execute(task: AssignedTask, { registration, reporter, logs }: Connection): Promise<AttemptResult> {
    const { folders, clock } = this.#options
    try {
      const prepared = this.#isFolderless(task)
        ? { ...task.work, baseDir: "/", workingDir: "/" }
        : await Promise.race([folders.prepare(task, registration, clock.now()), untilStopped(task)])
      if (typeof prepared === "string") {
        return { ...this.#runner.failed("stopped while it was being prepared", true), state: prepared }
      }
      logs.add(task)
      return await this.#runner.run(prepared, task, {
        started: (info) => reporter.started(task, info),
        progress: ({ fraction, details }) => reporter.progress(task, fraction ?? null, details ?? null),
      })
    } catch (error) {
      return this.#runner.failed(`could not prepare the task: ${messageOf(error)}`, true)
    }
  }

  /** Returns whether nothing of the task is in a folder: neither files, nor outputs of other tasks, nor its work. */
  #isFolderless({ work, wire }: AssignedTask): boolean {
    const executor = this.#options.executors.get(work.node.executor)
    const isEmpty = wire.bundle === null && wire.working_dir === null && wire.upstream === null && work.code === undefined
    return executor?.folderless === true && isEmpty
  }

  /** Removes the attempt's objects from this machine, and the folder of a job, which belongs to one attempt. */
  async #removeFiles(task: AssignedTask): Promise<void> {
    const { work, wire } = task
    const { objects, folders, log } = this.#options
    try {
      const folder = objects.localPath(work.prefix.slice(0, -1))
      // Most attempts leave no objects.
      if (existsSync(folder)) {
        await objects.deletePrefix(work.prefix)
        // The folder of a run is removed when the run has ended. That of a job stays while another attempt uses it.
        if (wire.job) await rmdir(dirname(folder)).catch(() => {})
      }
      if (wire.job && !this.#isFolderless(task)) await folders.remove(work.runId)
    } catch (error) {
      log.warn({ run: work.runId, error: messageOf(error) }, "failed to remove the files of an attempt")
    }
  }
}
