import type { Observer } from "../engine/ports.ts"

/** Returns an observer that calls all of the given ones. */
export const combineObservers = (observers: readonly Observer[]): Observer => ({
  turn: (batch) => {
    for (const observer of observers) observer.turn?.(batch)
  },
  environment: (claim) => Object.assign({}, ...observers.map((observer) => observer.environment?.(claim))) as Env,
  attemptEnded: (claim, node, result) => {
    for (const observer of observers) observer.attemptEnded?.(claim, node, result)
  },
  cancelled: () => {
    for (const observer of observers) observer.cancelled?.()
  },
})

type Env = ReturnType<NonNullable<Observer["environment"]>>
