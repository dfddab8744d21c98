// Removes old runs, as a server does every hour. The removal of folders takes real time: virtual time stands still from the removal of
// a run's objects to the next call of the store.

import { removeOldRuns } from "../../../src/engine/services/retention.ts"
import type { ObjectStore } from "../../../src/objects/objects.ts"
import type { ServerStore } from "../../../src/store/contract/server-store.ts"
import type { Simulation } from "../simulation.ts"
import type { EngineProcess } from "./engine-process.ts"

type Member = (...args: unknown[]) => unknown

/** Returns the object with one method replaced. */
const replaceMethod = <T extends object, K extends keyof T & string>(target: T, name: K, replacement: T[K]): T =>
  new Proxy(target, {
    get: (_, key) => {
      if (key === name) return replacement
      const member: unknown = Reflect.get(target, key)
      return typeof member === "function" ? (member as Member).bind(target) : member
    },
  })

export class RunRetention {
  readonly #simulation: Simulation
  readonly #process: EngineProcess
  readonly #store: ServerStore
  readonly #objects: ObjectStore
  readonly #stopped = new AbortController()
  #foldersRemoved: () => void = () => undefined

  constructor(simulation: Simulation, process: EngineProcess, store: ServerStore) {
    this.#simulation = simulation
    this.#process = process
    this.#store = replaceMethod(store, "removeRun", (...args) => {
      this.#foldersRemoved()
      return store.removeRun(...args)
    })
    this.#objects = replaceMethod<ObjectStore, "deletePrefix">(simulation.objects, "deletePrefix", async (prefix) => {
      await simulation.objects.deletePrefix(prefix)
      simulation.track(() => new Promise((resolve) => (this.#foldersRemoved = resolve)))
    })
  }

  start(): void {
    const { retention } = this.#simulation.scenario
    if (retention === null || this.#simulation.faultsOver || this.#stopped.signal.aborted) return
    this.#process.clock.after(retention.everyMs, () => {
      const parts = { store: this.#store, objects: this.#objects, dataDir: this.#process.dataDir }
      const again = (): void => this.start()
      removeOldRuns(parts, { olderThanMs: retention.olderThanMs }, this.#stopped.signal).then(again, again)
    })
  }

  stop(): void {
    this.#stopped.abort()
  }
}
