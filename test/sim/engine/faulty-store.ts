// The store as an engine sees it. Every call takes virtual time; it may fail before its commit or after it (the reply is lost), its
// batch may arrive a second time, and the engine's process may crash before or after it.

import { StoreUnavailable } from "../../../src/store/contract/errors.ts"
import type { ServerStore } from "../../../src/store/contract/server-store.ts"
import type { Batch } from "../../../src/store/contract/store.ts"
import { Rng } from "../rng.ts"
import type { Simulation } from "../simulation.ts"
import type { EngineProcess } from "./engine-process.ts"

export type StoreMethod = keyof ServerStore

type Call = (...args: unknown[]) => Promise<unknown>

/** Members that reach the store without delay or fault. */
const DIRECT: ReadonlySet<string> = new Set<StoreMethod>(["kind", "getLoadedVersion", "close"])

export const faultyStore = (simulation: Simulation, process: EngineProcess): ServerStore => {
  const { leases } = simulation.scenario
  const calls = new FaultyCalls(simulation, process)
  const replaced: Partial<ServerStore> = {
    usesLeases: leases,
    // So that two batches are in flight even where there are few changes.
    ...(leases && { advanceConcurrency: { maxConcurrent: 2, minBatch: 1 } }),
    onWake: (wake) => void process.wakes.push(wake),
  }
  return new Proxy<ServerStore>(process.store, {
    get: (store, name: StoreMethod) => {
      if (name in replaced) return replaced[name]
      const member: unknown = Reflect.get(store, name)
      if (typeof member !== "function") return member
      return DIRECT.has(name) ? (member as Call).bind(store) : (...args: unknown[]) => calls.call(name, args)
    },
  })
}

/** The fate of a call: it fails and commits nothing, it commits and its reply is lost, or it commits and replies. */
type Fate = "fail" | "lose reply" | "reply"

class FaultyCalls {
  readonly #simulation: Simulation
  readonly #process: EngineProcess
  readonly #rng: Rng
  /** Calls of `advance` whose reply did not arrive. */
  #failedAdvances = 0

  constructor(simulation: Simulation, process: EngineProcess) {
    this.#simulation = simulation
    this.#process = process
    this.#rng = new Rng("door", simulation.scenario.seed, process.name)
  }

  call(method: StoreMethod, args: unknown[]): Promise<unknown> {
    const rng = this.#rng
    const { clock } = this.#process
    const { faultsOver, scenario } = this.#simulation
    const { faults } = scenario
    const roll = (probability: number): boolean => rng.chance(faultsOver ? 0 : probability)
    const latency = (): number => (roll(faults.verySlow) ? rng.int(5000, 30_000) : roll(faults.slow) ? rng.int(1, 300) : 0)
    const crash = this.#simulation.plannedCrash(this.#process)
    const fate: Fate = roll(faults.failBeforeCommit) ? "fail" : roll(faults.failAfterCommit) ? "lose reply" : "reply"
    const isRepeated = method === "advance" && roll(faults.repeatBatch)
    const fault = (): Error => new StoreUnavailable("the simulation", `${method}: ${fate}`)

    const failedBefore = this.#failedAdvances
    this.#process.calls += 1
    return new Promise<unknown>((resolve, reject) => {
      const reply = (settle: () => void): void => {
        clock.after(latency(), () => {
          this.#process.calls -= 1
          if (method === "advance") this.#afterAdvance(fate === "reply", failedBefore)
          settle()
        })
      }
      clock.after(latency(), () => {
        if (crash === "before") return this.#simulation.crash(this.#process, `before ${method}`)
        if (fate === "fail") {
          this.#simulation.log(this.#process, `${method} fails`)
          if (isRepeated) this.#repeat(args[0] as Batch, rng.int(0, 2000))
          return reply(() => reject(fault()))
        }
        this.#perform(method, args, (value, error) => {
          if (crash === "after") return this.#simulation.crash(this.#process, `after ${method}`)
          if (isRepeated) this.#repeat(args[0] as Batch, rng.pick([0, rng.int(0, 2000)]))
          if (fate === "lose reply") this.#simulation.log(this.#process, `the reply of ${method} is lost`)
          reply(() => (error !== undefined ? reject(error) : fate === "reply" ? resolve(value) : reject(fault())))
        })
      })
    })
  }

  /** The process recovers by a call that began after the last failure; one that was in flight beside the failed call does not count. */
  #afterAdvance(replied: boolean, failedBefore: number): void {
    if (replied) this.#process.hasUnseenCommits = false
    else this.#failedAdvances += 1
    this.#process.failing = !replied || this.#failedAdvances > failedBefore
  }

  /** Sends the changes of a batch again after `ms`, without claiming, as a network may do. */
  #repeat(batch: Batch, ms: number): void {
    if (batch.changes.length === 0) return
    const again: Batch = { ...batch, work: { lanes: [], maxClaims: 0 }, gate: { lanes: [], maxClaims: 0 } }
    this.#process.clock.after(ms, () => {
      this.#simulation.log(this.#process, `a batch of ${batch.changes.length} changes arrives again`)
      this.#process.hasUnseenCommits = true
      this.#perform("advance", [again], () => undefined)
    })
  }

  /** Calls the real store while virtual time stands still, and checks what it did. */
  #perform(method: StoreMethod, args: unknown[], then: (value: unknown, error?: Error) => void): void {
    const { commitLog, database } = this.#simulation
    const { store } = this.#process
    this.#simulation.track(async () => {
      commitLog.beforeCall(method, args)
      const operation = Reflect.get(store, method) as Call
      const outcome = await operation.apply(store, args).then(
        (value) => ({ value }),
        (error: Error) => ({ error }),
      )
      const wakeUp = await database.refresh(store)
      if ("error" in outcome) {
        commitLog.failedCall(this.#process, method, outcome.error)
        then(undefined, outcome.error)
      } else {
        commitLog.afterCall(this.#process, { method, args, value: outcome.value, wakeUp })
        then(outcome.value)
      }
    })
  }
}
