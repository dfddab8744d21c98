// The slurm executor runs each attempt as a batch job of a Slurm cluster, and fan-outs as job arrays, by the commands of Slurm.
// Input, output, logs and exit codes are exchanged in a folder that Ork and all nodes share. A job outlives the server that
// submitted it: the next server finds it by the attempt id.

import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { environmentProblem } from "../environment.ts"
import type { Assignment, Executor, LaunchContext } from "../executor.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { Leftovers } from "../remote/leftovers.ts"
import { scancel, SlurmAttempt, type SlurmParts } from "./attempt.ts"
import { SlurmCli } from "./cli.ts"
import { JobFolders, type SubmittedWork } from "./job-folders.ts"
import { QueuePoller } from "./poller.ts"
import { isOver } from "./queue.ts"
import { Submitter } from "./submitter.ts"

export interface SlurmExecutorOptions {
  objects: ObjectStore
  clock: Clock
  /** Folder that all nodes share under the same path. */
  folder: string
  /** Prefix of each command of Slurm, such as `ssh login1`; empty for none. */
  command: string
  env: NodeJS.ProcessEnv
}

export class SlurmExecutor implements Executor {
  readonly name = "slurm"
  readonly remote = true
  readonly #objects: ObjectStore
  readonly #clock: Clock
  readonly #parts: SlurmParts
  /** Ids of the attempts that this process follows. */
  readonly #followed = new Set<string>()
  readonly #leftovers = new Leftovers()

  constructor({ objects, clock, folder, command, env }: SlurmExecutorOptions) {
    const cli = new SlurmCli(command, env)
    const folders = new JobFolders(folder)
    const poller = new QueuePoller(cli, clock)
    const submitter = new Submitter({ cli, folders, poller, clock })
    this.#objects = objects
    this.#clock = clock
    this.#parts = { cli, folders, poller, submitter }
  }

  async start(): Promise<void> {
    await this.#parts.submitter.start()
  }

  async stop(): Promise<void> {
    this.#parts.poller.stop()
  }

  async sweep(ended: Parameters<NonNullable<Executor["sweep"]>>[0]): Promise<void> {
    const { folders } = this.#parts
    const source = {
      name: "the shared folder",
      list: () => folders.list(this.#followed),
      remove: (work: SubmittedWork) => this.#remove(work),
    }
    await this.#leftovers.sweep([source], ended)
  }

  /** Cancels the job, or removes its files if it is over: a cancelled one needs them until it ends. */
  async #remove({ attemptId, location }: SubmittedWork): Promise<void> {
    const { cli, folders, poller } = this.#parts
    const job = await poller.find(location)
    if (job === null || isOver(job)) await folders.remove(attemptId, location)
    else await scancel(cli, [job.id])
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const unstarted = { startedAt: null, finishedAt: this.#clock.now() }
    const argv = assignment.command !== null && "argv" in assignment.command ? assignment.command.argv : []
    const problem = environmentProblem(
      Object.entries(assignment.env).map(([name, value]) => `${name}=${value}`),
      argv,
    )
    if (problem !== null) return { ...unstarted, state: "failed", error: `could not start: ${problem}`, retryable: false }
    this.#followed.add(assignment.attemptId)
    try {
      const launch = { assignment, context, objects: this.#objects, clock: this.#clock }
      return await new SlurmAttempt(this.#parts, launch).run()
    } catch (error) {
      return { ...unstarted, state: "failed", error: `could not run: ${messageOf(error)}` }
    } finally {
      this.#followed.delete(assignment.attemptId)
    }
  }
}
