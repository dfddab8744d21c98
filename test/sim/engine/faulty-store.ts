// The door between an engine and its store. Every call passes here: it takes virtual time, may fail before it was carried out
// or after (the answer is lost), may be carried out twice or late, and may be the last thing that the engine ever did.

import { StoreUnavailable } from "../../../src/store/contract/errors.ts"
import type { Batch, Store } from "../../../src/store/contract/store.ts"
import type { Life } from "./engine-process.ts"
import { Rng } from "../rng.ts"
import type { World } from "../simulation.ts"

type Call = (...args: unknown[]) => Promise<unknown>

/** What a call of this kind does to the world is told to the commit log. */
const DIRECT = new Set(["kind", "compiledNow", "close"])

export const openDoor = (world: World, life: Life, store: Store): Store => {
  const door = new Door(world, life, store)
  return new Proxy(store, {
    get: (target, name: string) => {
      if (name === "leases") return world.scenario.leases
      if (name === "advanceConcurrency")
        return world.scenario.leases ? { maxConcurrent: 2, minBatch: 1 } : target.advanceConcurrency
      if (name === "onWake") return (wake: () => void) => void (life.wake = wake)
      const member: unknown = Reflect.get(target, name)
      if (DIRECT.has(name)) return typeof member === "function" ? (member as Call).bind(target) : member
      return (...args: unknown[]) => door.call(name, args)
    },
  })
}

class Door {
  readonly #world: World
  readonly #life: Life
  readonly #store: Store
  readonly #rng: Rng
  /** Turns that were not answered. */
  #failures = 0

  constructor(world: World, life: Life, store: Store) {
    this.#world = world
    this.#life = life
    this.#store = store
    this.#rng = new Rng("door", world.scenario.seed, life.name)
  }

  call(method: string, args: unknown[]): Promise<unknown> {
    const { faults } = this.#world.scenario
    const calm = this.#world.calm
    const rng = this.#rng
    const roll = (probability: number): boolean => rng.chance(calm ? 0 : probability)
    const latency = (): number => (roll(faults.verySlow) ? rng.int(5000, 30_000) : roll(faults.slow) ? rng.int(1, 300) : 0)
    const crash = this.#world.crashAt(this.#life)
    const fate = roll(faults.throwBefore) ? "refuse" : roll(faults.throwAfter) ? "lose" : "answer"
    const late = fate === "refuse" && method === "advance" && roll(faults.doubled)
    const doubled = fate !== "refuse" && method === "advance" && roll(faults.doubled)
    const trouble = (): Error => new StoreUnavailable("the simulation", `${method} ${fate}`)

    const failures = this.#failures
    return new Promise<unknown>((resolve, reject) => {
      this.#life.calls += 1
      const done = (settle: () => void): void => {
        this.#life.clock.after(latency(), () => {
          this.#life.calls -= 1
          if (method === "advance") this.#advanced(fate === "answer", failures)
          if (method === "advance" && fate === "answer") this.#life.unaware = false
          settle()
        })
      }
      this.#life.clock.after(latency(), () => {
        if (crash === "before") return this.#world.crash(this.#life, `before ${method}`)
        if (fate === "refuse") {
          this.#world.tell(this.#life, `${method} fails`)
          if (late) this.#again(args[0] as Batch, rng.int(0, 2000))
          return done(() => reject(trouble()))
        }
        this.#perform(method, args, (answer, error) => {
          if (crash === "after") return this.#world.crash(this.#life, `after ${method}`)
          if (doubled) this.#again(args[0] as Batch, rng.pick([0, rng.int(0, 2000)]))
          if (fate === "lose") this.#world.tell(this.#life, `the answer of ${method} is lost`)
          done(() => (error !== undefined ? reject(error) : fate === "lose" ? reject(trouble()) : resolve(answer)))
        })
      })
    })
  }

  /** A turn that was on its way beside one that failed does not mean that the engine has recovered from that. */
  #advanced(answered: boolean, failuresBefore: number): void {
    if (!answered) this.#failures += 1
    this.#life.failing = !answered || this.#failures > failuresBefore
  }

  /** The same batch once more, with nothing asked for: somebody between us and the database sent it again. */
  #again(batch: Batch, ms: number): void {
    if (batch.changes.length === 0) return
    const again: Batch = { ...batch, claim: { lanes: [], limit: 0 }, gate: { lanes: [], limit: 0 } }
    this.#life.clock.after(ms, () => {
      this.#world.tell(this.#life, `a batch of ${batch.changes.length} arrives again`)
      this.#life.unaware = true
      this.#perform("advance", [again], () => undefined)
    })
  }

  /** Carries the call out, in real time; virtual time stands still. */
  #perform(method: string, args: unknown[], then: (answer: unknown, error?: Error) => void): void {
    const { commits } = this.#world
    this.#world.real(async () => {
      commits.before(this.#life, method, args)
      const operation = Reflect.get(this.#store, method) as Call
      const outcome = await operation.apply(this.#store, args).then(
        (answer) => ({ answer }),
        (error: Error) => ({ error }),
      )
      const wakeUp = await this.#world.database.refresh(this.#store)
      if ("error" in outcome) {
        commits.failed(this.#life, method, outcome.error)
        then(undefined, outcome.error)
      } else {
        commits.after(this.#life, { method, args, answer: outcome.answer, wakeUp })
        then(outcome.answer)
      }
    })
  }
}
