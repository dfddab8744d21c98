// Kills an engine of the test kit without warning.

import type { Clock } from "../../core/model/ports.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import type { VirtualClock } from "../virtual-clock.ts"

/** Ends one engine, as a crash does: afterwards nothing that it does has an effect, and nothing that it waits for happens. */
export class KillSwitch {
  #ended = false
  readonly #end = Promise.withResolvers<never>()
  readonly killed: Promise<"killed">

  constructor() {
    this.killed = this.#end.promise.catch(() => "killed" as const)
  }

  end(): void {
    this.#ended = true
    this.#end.reject(new Error("the engine was killed"))
  }

  clock(clock: VirtualClock): Clock {
    return {
      steady: true,
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      after: (ms, fire) =>
        this.#ended
          ? () => {}
          : clock.after(ms, () => {
              if (!this.#ended) fire()
            }),
    }
  }

  /** Rolls back a transaction of a killed engine. */
  #transactionsOf(store: ServerStore): ServerStore["recordInTransaction"] {
    const record: ServerStore["recordInTransaction"] = (step, work) =>
      store.recordInTransaction(step, (tx) => Promise.race([work(tx), this.#end.promise]))
    return async (step, work) => {
      const recorded = await record(step, work)
      return this.#ended ? await new Promise<never>(() => {}) : recorded
    }
  }

  /** Returns the store for this engine, which does not close it. */
  bind(store: ServerStore): ServerStore {
    const never = new Promise<never>(() => {})
    return new Proxy(store, {
      get: (target, name, receiver) => {
        const value: unknown = Reflect.get(target, name, receiver)
        if (name === "close") return async () => {}
        if (name === "recordInTransaction") return this.#transactionsOf(target)
        if (typeof value !== "function" || name === "getLoadedVersion" || name === "onWake") return value
        return (...args: unknown[]): unknown => {
          if (this.#ended) return never
          const result: unknown = (value as (...values: unknown[]) => unknown).apply(target, args)
          return result instanceof Promise ? result.then((settled: unknown) => (this.#ended ? never : settled)) : result
        }
      },
    })
  }
}
