// The docker executor runs each attempt in a container of its own, by the API socket of Docker or Podman. Containers are named
// after their attempt and labelled with their owner, and are always removed: at the end, after a stop, when an engine that was away is
// back, and by the next start after a crash.

import { existsSync } from "node:fs"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { environmentProblem } from "../environment.ts"
import { argvOf, type Assignment, type Executor, type LaunchContext, type StopReason } from "../executor.ts"
import { stoppedResult } from "../stopped.ts"
import { type Environ, engineAddress } from "./address.ts"
import { AttemptFolders, SILENT_MS } from "./attempt-folders.ts"
import { containerEnvironment } from "./container.ts"
import { DockerEngine } from "./engine.ts"
import { DockerAttempt } from "./attempt.ts"
import { sweep } from "./sweep.ts"
import { startFailure } from "./messages.ts"

export interface DockerExecutorOptions {
  objects: ObjectStore
  clock: Clock
  dataDir: string
  /** Environment with DOCKER_HOST and related variables. */
  env: Environ
  log: { warn(fields: object, message: string): void }
}

interface Ready {
  engine: DockerEngine
  folders: AttemptFolders
}

/** Pause before the next attempt to remove containers that were left behind. */
const RETRY_MS = 5000
const MAX_RETRY_MS = 60_000

export class DockerExecutor implements Executor {
  readonly name = "docker"
  readonly #options: DockerExecutorOptions
  readonly #running = new Set<{ abort: AbortController; result: Promise<unknown> }>()
  /** Ended attempts whose containers could not be removed. */
  readonly #leftBehind = new Set<string>()
  #ready: Ready | null = null
  /** Sweeps in a row that failed. */
  #failedSweeps = 0
  #cancelSweep: (() => void) | null = null

  constructor(options: DockerExecutorOptions) {
    this.#options = options
  }

  /** Rejects when the engine cannot be reached. */
  async start(): Promise<void> {
    const { env, dataDir, clock } = this.#options
    const engine = new DockerEngine(engineAddress(env, existsSync))
    await engine.connect()
    const folders = new AttemptFolders(dataDir, clock)
    try {
      await this.#sweep({ engine, folders })
    } catch (error) {
      folders.stop()
      engine.close()
      throw error
    }
    this.#ready = { engine, folders }
  }

  /** Stops every container of this process. */
  async stop(): Promise<void> {
    for (const { abort } of this.#running) abort.abort("shutdown" satisfies StopReason)
    await Promise.all([...this.#running].map(({ result }) => result))
    this.#cancelSweep?.()
    this.#ready?.folders.stop()
    this.#ready?.engine.close()
    this.#ready = null
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const abort = new AbortController()
    const signal = AbortSignal.any([context.signal, abort.signal])
    const result = this.#run(assignment, {
      signal,
      started: (info) => context.started(info),
      progress: (update) => context.progress(update),
    })
    const running = { abort, result }
    this.#running.add(running)
    try {
      return await result
    } finally {
      this.#running.delete(running)
    }
  }

  async #run(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { objects, clock, env } = this.#options
    const { signal } = context
    if (this.#ready === null) return startFailure(new Error("the executor was stopped"), clock.now())
    if (signal.aborted) {
      return stoppedResult(signal.reason as StopReason, { startedAt: null, finishedAt: clock.now() }, assignment)
    }
    const { engine, folders } = this.#ready
    const variables = Object.entries(containerEnvironment(assignment)).map(([name, value]) => `${name}=${value}`)
    const problem = environmentProblem(variables, argvOf(assignment.command))
    if (problem !== null) return { ...startFailure(new Error(problem), clock.now()), retryable: false }
    try {
      const files = await folders.create(assignment)
      const owner = { owner: folders.owner, data: folders.data }
      const leftBehind = (): void => {
        this.#leftBehind.add(assignment.attemptId)
        this.#sweepLater(RETRY_MS)
      }
      return await new DockerAttempt({ engine, objects, clock, owner, env, files, assignment, context, leftBehind }).run()
    } catch (error) {
      return startFailure(error, clock.now())
    } finally {
      await folders.remove(assignment.attemptId)
    }
  }

  /** Removes containers of dead owners and those that were left behind; repeats later for owners that may be alive. */
  async #sweep({ engine, folders }: Ready): Promise<void> {
    const leftBehind = new Set(this.#leftBehind)
    const { undecided, failures } = await sweep(engine, folders, leftBehind)
    for (const attemptId of leftBehind) if (!failures.has(attemptId)) this.#leftBehind.delete(attemptId)
    if (failures.size > 0) return this.#sweepAgain([...failures.values()].join("; "))
    this.#failedSweeps = 0
    if (undecided) this.#sweepLater(SILENT_MS)
  }

  #sweepLater(ms: number): void {
    this.#cancelSweep?.()
    this.#cancelSweep = this.#options.clock.after(ms, () => {
      if (this.#ready !== null) void this.#sweep(this.#ready).catch((error: unknown) => this.#sweepAgain(messageOf(error)))
    })
  }

  /** Repeats a sweep that failed, with growing pauses, and logs the first failure. */
  #sweepAgain(error: string): void {
    const message = "failed to remove containers of ended attempts; trying again"
    if (this.#failedSweeps === 0) this.#options.log.warn({ error }, message)
    this.#sweepLater(Math.min(MAX_RETRY_MS, RETRY_MS * 2 ** this.#failedSweeps))
    this.#failedSweeps += 1
  }
}
