// Operations that take real time, under a virtual clock.

import type { VirtualClock } from "../virtual-clock.ts"

/** Returns the object with methods whose operations the clock waits for before it settles. */
export const awaitOperations = <T extends object>(target: T, clock: VirtualClock): T =>
  new Proxy(target, {
    get: (_, name) => {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== "function") return value
      return (...args: unknown[]): unknown => {
        const result: unknown = (value as (...values: unknown[]) => unknown).apply(target, args)
        return result instanceof Promise ? clock.during(result) : result
      }
    },
  })
