// The slurm executor: each attempt a batch job of a Slurm cluster, fan-outs as arrays, through the cluster's own commands. Input, output,
// logs and exit codes travel through a folder that Ork and all nodes share. A job outlives the server that submitted it: the next one
// finds it by the attempt.

import { messageOf } from "../../core/model/error-message.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { environmentProblem } from "../environment.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../executor.ts"
import { stoppedResult } from "../stopped.ts"
import { SlurmCli } from "./cli.ts"
import { JobFolders } from "./job-folders.ts"
import { QueuePoller } from "./poller.ts"
import { JobRun, type RunParts } from "./run.ts"
import { Submitter } from "./submitter.ts"

export interface SlurmExecutorOptions {
  objects: ObjectStore
  clock: Clock
  /** Shared with all nodes, under the same path. */
  folder: string
  /** Goes in front of each command of Slurm. */
  command: string
  env: NodeJS.ProcessEnv
}

export class SlurmExecutor implements Executor {
  readonly name = "slurm"
  readonly remote = true
  readonly #parts: RunParts

  constructor({ objects, clock, folder, command, env }: SlurmExecutorOptions) {
    const cli = new SlurmCli(command, env)
    const folders = new JobFolders(folder)
    const poller = new QueuePoller(cli, clock)
    const submitter = new Submitter({ cli, folders, poller, clock })
    this.#parts = { cli, folders, poller, submitter, objects, clock }
  }

  async start(): Promise<void> {
    await this.#parts.submitter.start()
  }

  async stop(): Promise<void> {
    this.#parts.poller.stop()
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { clock } = this.#parts
    const { signal } = context
    const unstarted = { startedAt: null, finishedAt: clock.now() }
    const argv = assignment.command !== null && "argv" in assignment.command ? assignment.command.argv : []
    const problem = environmentProblem(
      Object.entries(assignment.env).map(([name, value]) => `${name}=${value}`),
      argv,
    )
    if (problem !== null) return { ...unstarted, state: "failed", error: `could not start: ${problem}`, retryable: false }
    if (signal.aborted && (await this.#parts.folders.find(assignment.attemptId)) === null) {
      return stoppedResult(signal.reason as StopReason, unstarted, assignment)
    }
    try {
      return await new JobRun(this.#parts, assignment, context).run()
    } catch (error) {
      return { ...unstarted, state: "failed", error: `could not run: ${messageOf(error)}` }
    }
  }
}
