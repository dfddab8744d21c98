// Users that create jobs, and repeat a request until it is acknowledged.

import type { JobRequest } from "../scenario/jobs.ts"
import type { Simulation } from "../simulation.ts"
import type { Users } from "./users.ts"

const REPEAT_MS = 500

export class JobUsers {
  readonly #simulation: Simulation
  readonly #users: Users

  constructor(simulation: Simulation, users: Users) {
    this.#simulation = simulation
    this.#users = users
  }

  start(): void {
    for (const request of this.#simulation.scenario.jobs) this.#users.after(request.at, () => this.#create(request))
  }

  #create({ jobs, at }: JobRequest): void {
    const again = (): void => this.#users.after(REPEAT_MS, () => this.#create({ jobs, at }))
    this.#users.request({
      engine: null,
      send: ({ jobs: service }) => service!.create(jobs),
      succeeded: (created, process) => {
        const names = jobs.map(({ id }) => id.slice(0, 8)).join(" ")
        this.#simulation.log(process, `acknowledges the jobs ${names}`)
        if (Array.isArray(created)) return this.#simulation.check(() => this.#simulation.jobs.acknowledge(jobs, created))
        // An earlier request, whose reply was lost, has created them.
        if (created.rejected !== "exists") this.#simulation.fail(new Error(`jobs were rejected: ${JSON.stringify(created)}`))
      },
      failed: again,
    })
  }
}
