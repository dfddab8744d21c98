// The docker executor: each attempt in a container of its own, through the API socket of Docker or Podman. Containers are named and
// labelled after their attempt and owner, and none is left behind: not by an end, not by a stop, not by a crash.

import { existsSync } from "node:fs"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { environmentProblem } from "../environment.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../executor.ts"
import { stoppedResult } from "../stopped.ts"
import { type Environ, engineAddress } from "./address.ts"
import { AttemptFolders, SILENT_MS } from "./attempt-folders.ts"
import { containerEnvironment } from "./container.ts"
import { Engine } from "./engine.ts"
import { ContainerRun } from "./run.ts"
import { sweep } from "./sweep.ts"
import { unstarted } from "./messages.ts"

export interface DockerExecutorOptions {
  objects: ObjectStore
  clock: Clock
  dataDir: string
  /** DOCKER_HOST and what belongs to it. */
  env: Environ
}

export class DockerExecutor implements Executor {
  readonly name = "docker"
  readonly #options: DockerExecutorOptions
  readonly #live = new Set<{ abort: AbortController; end: Promise<unknown> }>()
  #ready: { engine: Engine; folders: AttemptFolders } | null = null
  #cancelSweep: (() => void) | null = null

  constructor(options: DockerExecutorOptions) {
    this.#options = options
  }

  /** Rejects when there is no engine to speak to. */
  async start(): Promise<void> {
    const { env, dataDir, clock } = this.#options
    const engine = new Engine(engineAddress(env, existsSync))
    await engine.connect()
    const folders = new AttemptFolders(dataDir, clock)
    try {
      await this.#sweep(engine, folders)
    } catch (error) {
      folders.stop()
      engine.close()
      throw error
    }
    this.#ready = { engine, folders }
  }

  /** Ends every container of this process. */
  async stop(): Promise<void> {
    this.#cancelSweep?.()
    for (const { abort } of this.#live) abort.abort("shutdown" satisfies StopReason)
    await Promise.all([...this.#live].map(({ end }) => end))
    this.#ready?.folders.stop()
    this.#ready?.engine.close()
    this.#ready = null
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const abort = new AbortController()
    const signal = AbortSignal.any([context.signal, abort.signal])
    const end = this.#run(assignment, {
      signal,
      started: (info) => context.started(info),
      progress: (update) => context.progress(update),
    })
    const live = { abort, end }
    this.#live.add(live)
    try {
      return await end
    } finally {
      this.#live.delete(live)
    }
  }

  async #run(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { objects, clock, env } = this.#options
    const { signal } = context
    const unready = (): AttemptResult => unstarted(new Error("the executor was stopped"), clock.now())
    if (this.#ready === null) return unready()
    if (signal.aborted) {
      return stoppedResult(signal.reason as StopReason, { startedAt: null, finishedAt: clock.now() }, assignment)
    }
    const { engine, folders } = this.#ready
    const { command } = assignment
    const argv = command === null ? [] : "argv" in command ? command.argv : [command.shell]
    const variables = Object.entries(containerEnvironment(assignment)).map(([name, value]) => `${name}=${value}`)
    const problem = environmentProblem(variables, argv)
    if (problem !== null) return { ...unstarted(new Error(problem), clock.now()), retryable: false }
    const input = JSON.stringify(assignment.input)
    try {
      const places = { ...(await folders.make(assignment.attemptId, input)), input }
      const owner = { owner: folders.owner, data: folders.data }
      return await new ContainerRun({ engine, objects, clock, owner, env }, places, assignment, context).run()
    } catch (error) {
      return unstarted(error, clock.now())
    } finally {
      await folders.remove(assignment.attemptId)
    }
  }

  async #sweep(engine: Engine, folders: AttemptFolders): Promise<void> {
    const again = await sweep(engine, folders)
    if (!again) return
    this.#cancelSweep = this.#options.clock.after(SILENT_MS, () => void this.#sweep(engine, folders).catch(() => {}))
  }
}
