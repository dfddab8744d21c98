// The tasks that this worker holds: from their assignment until the server has accepted their results.

import type { AssignedTask } from "./assigned-task.ts"
import type { StopReason } from "../../executors/executor.ts"

export class TaskTable {
  readonly #capacity: number
  readonly #tasks = new Map<string, AssignedTask>()
  #change: AbortController | null = null

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  get size(): number {
    return this.#tasks.size
  }

  get ids(): string[] {
    return [...this.#tasks.keys()]
  }

  get stoppingIds(): string[] {
    return [...this.#tasks.values()].filter((task) => task.stopping).map(({ id }) => id)
  }

  get running(): number {
    let running = 0
    for (const task of this.#tasks.values()) if (task.running) running += 1
    return running
  }

  get freeSlots(): number {
    return Math.max(0, this.#capacity - this.running)
  }

  has(id: string): boolean {
    return this.#tasks.has(id)
  }

  add(task: AssignedTask): void {
    this.#tasks.set(task.id, task)
  }

  remove(task: AssignedTask): void {
    this.#tasks.delete(task.id)
    this.#changed()
  }

  clear(): void {
    this.#tasks.clear()
  }

  /** Frees the slot of a task whose work has ended; its result is still to be reported. */
  freeSlot(task: AssignedTask): void {
    task.running = false
    this.#changed()
  }

  /** Passes the server's stop requests on to the tasks, each once. */
  requestStops(requests: readonly { attempt_id: string; reason: StopReason }[]): void {
    for (const { attempt_id, reason } of requests) {
      const task = this.#tasks.get(attempt_id)
      if (task === undefined || task.stopping) continue
      task.stopping = true
      task.stop(reason)
    }
  }

  stopAll(reason: StopReason): void {
    for (const task of this.#tasks.values()) task.stop(reason)
  }

  /** Stops tasks that other workers hold now, without reporting them. */
  abandon(ids: readonly string[]): void {
    for (const id of ids) {
      const task = this.#tasks.get(id)
      if (task !== undefined) this.abandonTask(task)
    }
  }

  abandonTask(task: AssignedTask): void {
    task.abandoned = true
    if (task.running) task.stop("lost")
    else this.remove(task)
  }

  /** Returns a signal that aborts when a slot is freed or a task is removed. */
  get nextChange(): AbortSignal {
    this.#change ??= new AbortController()
    return this.#change.signal
  }

  /** Resolves when a slot is freed or a task is removed, or when `signal` aborts. */
  changed(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      for (const each of [this.nextChange, signal]) each?.addEventListener("abort", () => resolve(), { once: true })
    })
  }

  #changed(): void {
    const change = this.#change
    this.#change = null
    change?.abort()
  }
}
