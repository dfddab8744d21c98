// An executor whose module is loaded on first use, so that commands that never use it do not load it. backends.ts creates one for
// each backend.

import { messageOf } from "../core/values/error-message.ts"
import type { AttemptResult } from "../core/model/change.ts"
import type { Clock } from "../core/model/ports.ts"
import type { Assignment, Executor, LaunchContext } from "./executor.ts"

export interface LazyOptions {
  name: string
  remote?: boolean
  clock: Clock
  /** Imports the module and creates the executor without starting it. */
  load(): Promise<Executor>
  /** Returns true when an earlier process may have left something that only the executor can clean up. Called at the start. */
  needsCleanup?(): boolean
  /** Returns true when an earlier process may have left work that a sweep removes. Called before each sweep. */
  needsSweep?(): boolean
}

export class LazyExecutor implements Executor {
  readonly name: string
  readonly remote: boolean
  readonly #options: LazyOptions
  #loading: Promise<Executor> | null = null

  constructor(options: LazyOptions) {
    this.name = options.name
    this.remote = options.remote ?? false
    this.#options = options
  }

  async start(): Promise<void> {
    if (this.#options.needsCleanup?.() !== true) return
    // An error is reported by the tasks that need the executor, so that a server without such tasks starts.
    await this.#get().catch(() => {})
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    let executor: Executor
    try {
      executor = await this.#get()
    } catch (error) {
      const reason = messageOf(error)
      const finishedAt = this.#options.clock.now()
      return { state: "failed", startedAt: null, finishedAt, error: `executor ${this.name} could not start: ${reason}` }
    }
    return executor.launch(assignment, context)
  }

  async sweep(ended: Parameters<NonNullable<Executor["sweep"]>>[0]): Promise<void> {
    const loaded = this.#options.needsSweep?.() === true ? await this.#get() : await this.#loading?.catch(() => null)
    await loaded?.sweep?.(ended)
  }

  async stop(): Promise<void> {
    const loaded = await this.#loading?.catch(() => null)
    await loaded?.stop?.()
  }

  /** Forgets a failure, so that the next launch tries again. */
  #get(): Promise<Executor> {
    this.#loading ??= this.#load().catch((error: unknown) => {
      this.#loading = null
      throw error
    })
    return this.#loading
  }

  async #load(): Promise<Executor> {
    const executor = await this.#options.load()
    await executor.start?.()
    return executor
  }
}
