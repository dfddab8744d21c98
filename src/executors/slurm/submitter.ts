// Hands attempts over to the cluster: those of one task that come together and ask for the same as one array. An answer that is lost does
// not make two jobs: the queue is asked for the name first.

import { messageOf } from "../../core/model/error-message.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { Assignment } from "../executor.ts"
import { Batcher } from "./batcher.ts"
import type { SlurmCli } from "./cli.ts"
import type { JobFolders } from "./job-folders.ts"
import type { JobPlace, QueuePoller } from "./poller.ts"
import { resourceOptions, sbatchOptions, submitScript } from "./script.ts"
import { isUnsure } from "./messages.ts"

/** Slurm's own default is 1001 tasks in an array. */
const DEFAULT_ARRAY = 1000
const TRIES = 3
/** Folders that are written at the same time. */
const WRITERS = 32

export interface SubmitterParts {
  cli: SlurmCli
  folders: JobFolders
  poller: QueuePoller
  clock: Clock
}

interface Waiting {
  assignment: Assignment
  resolve: (place: JobPlace) => void
  reject: (error: unknown) => void
}

export class Submitter {
  readonly #parts: SubmitterParts
  readonly #batcher: Batcher<Waiting>
  #maxArray = DEFAULT_ARRAY

  constructor(parts: SubmitterParts) {
    this.#parts = parts
    this.#batcher = new Batcher(
      parts.clock,
      () => this.#maxArray,
      (items) => void this.#flush(items),
    )
  }

  /** Asks the cluster how large an array may be. One that does not answer now may do so when there is something to submit. */
  async start(): Promise<void> {
    const config = await this.#parts.cli.call("scontrol", ["show", "config"]).catch(() => "")
    const most = /^MaxArraySize\s*=\s*(\d+)/m.exec(config)?.[1]
    if (most !== undefined) this.#maxArray = Math.max(1, Math.min(DEFAULT_ARRAY, Number(most) - 1))
  }

  /** Resolves when the cluster has taken it. */
  submit(assignment: Assignment): Promise<JobPlace> {
    const key = JSON.stringify([assignment.runId, assignment.task, resourceOptions(assignment)])
    return new Promise((resolve, reject) => this.#batcher.add(key, { assignment, resolve, reject }))
  }

  /** One that was prepared before and never arrived there. */
  async again(assignment: Assignment, place: JobPlace): Promise<void> {
    await this.#parts.folders.prepare(assignment, place)
    await this.#sbatch(assignment, place.name, String(place.index), place.index)
  }

  async #flush(items: Waiting[]): Promise<void> {
    const [first] = items
    if (first === undefined) return
    const { folders } = this.#parts
    const name = `ork-${first.assignment.attemptId}`
    const placed = items.map((item, index) => ({ item, place: { name, index } }))
    try {
      for (let at = 0; at < placed.length; at += WRITERS) {
        const some = placed.slice(at, at + WRITERS)
        await Promise.all(some.map(({ item, place }) => folders.prepare(item.assignment, place)))
      }
      await this.#sbatch(first.assignment, name, items.length === 1 ? null : `0-${items.length - 1}`, 0)
      for (const { item, place } of placed) item.resolve(place)
    } catch (error) {
      await Promise.all(placed.map(({ item, place }) => folders.remove(item.assignment.attemptId, place)))
      for (const { item } of placed) item.reject(error)
    }
  }

  async #sbatch(assignment: Assignment, name: string, array: string | null, index: number): Promise<void> {
    const { cli, folders, poller } = this.#parts
    const folder = folders.of({ name })
    const options = sbatchOptions({ name, folder, array, resources: resourceOptions(assignment) })
    for (let tries = 1; ; tries++) {
      try {
        await cli.call("sbatch", options, submitScript(folder))
        return
      } catch (error) {
        if (!isUnsure(messageOf(error)) || tries >= TRIES) throw error
        if ((await poller.find({ name, index }).catch(() => null)) !== null) return
      }
    }
  }
}
