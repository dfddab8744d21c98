// Users that create, change, cancel, retry and delete jobs, and repeat a request until it is acknowledged.

import type { JobAction, JobRequest } from "../scenario/jobs.ts"
import type { Simulation } from "../simulation.ts"
import type { Users } from "./users.ts"

const REPEAT_MS = 500
const MAX_TRIES = 10

export class JobUsers {
  readonly #simulation: Simulation
  readonly #users: Users

  constructor(simulation: Simulation, users: Users) {
    this.#simulation = simulation
    this.#users = users
  }

  start(): void {
    const { jobs, jobActions } = this.#simulation.scenario
    for (const request of jobs) this.#users.after(request.at, () => this.#create(request))
    for (const action of jobActions) this.#users.after(action.at, () => this.#act(action, 1))
  }

  #create(request: JobRequest): void {
    const { jobs, onConflict } = request
    const again = (): void => this.#users.after(REPEAT_MS, () => this.#create(request))
    this.#users.request({
      engine: null,
      send: ({ jobs: service }) => service!.create(jobs, { onConflict }),
      succeeded: (created, process) => {
        const names = jobs.map(({ id }) => id.slice(0, 8)).join(" ")
        this.#simulation.log(process, `acknowledges the jobs ${names}`)
        if (Array.isArray(created)) return this.#simulation.check(() => this.#simulation.jobs.acknowledge(jobs, created))
        // An earlier request, whose reply was lost, has created them.
        const isExpected = created.rejected === "exists" || (created.rejected === "key_exists" && onConflict === "error")
        if (!isExpected) this.#simulation.fail(new Error(`jobs were rejected: ${JSON.stringify(created)}`))
      },
      failed: again,
    })
  }

  #act(action: JobAction, tries: number): void {
    const { id, kind } = action
    const again = (): void => {
      if (tries < MAX_TRIES) this.#users.after(REPEAT_MS, () => this.#act(action, tries + 1))
    }
    if (!this.#simulation.jobs.isAcknowledged(id)) return again()
    this.#users.request<object | null>({
      engine: null,
      send: async ({ jobs: service }) => {
        if (action.kind === "edit") return await service!.update(id, action.change)
        return await service![action.kind](id)
      },
      succeeded: (outcome, process) => {
        const rejected = outcome !== null && "rejected" in outcome ? `: ${String(outcome.rejected)}` : ""
        this.#simulation.log(process, `answers the ${kind} of job ${id.slice(0, 8)}${rejected}`)
      },
      failed: again,
    })
  }
}
