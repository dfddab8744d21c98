// Users that change the settings of queues, and repeat a request until it is acknowledged.

import type { QueueSettings } from "../../../src/store/contract/queues.ts"
import { type QueueChange, UNBOUND } from "../scenario/queues.ts"
import type { Simulation } from "../simulation.ts"
import type { Users } from "./users.ts"

const REPEAT_MS = 500

export class QueueUsers {
  readonly #simulation: Simulation
  readonly #users: Users

  constructor(simulation: Simulation, users: Users) {
    this.#simulation = simulation
    this.#users = users
  }

  start(): void {
    for (const change of this.#simulation.scenario.queueChanges) this.#users.after(change.at, () => this.#change(change))
  }

  #change({ queue, settings, forMs }: QueueChange): void {
    const before = Object.fromEntries(
      Object.keys(settings).map((name) => [name, UNBOUND[name as keyof QueueSettings]]),
    ) as Partial<QueueSettings>
    this.#put(queue, settings, () => this.#users.after(forMs, () => this.#put(queue, before, () => undefined)))
  }

  #put(queue: string, settings: Partial<QueueSettings>, then: () => void): void {
    this.#users.request({
      engine: null,
      send: ({ engine, faultyStore }) => faultyStore.putQueue(queue, settings).finally(() => engine.wake()),
      succeeded: (_, process) => {
        this.#simulation.log(process, `acknowledges ${JSON.stringify(settings)} for the queue ${queue}`)
        then()
      },
      failed: () => this.#users.after(REPEAT_MS, () => this.#put(queue, settings, then)),
    })
  }
}
