// Reads what executions write out of Cloud Logging: one loop for each project, as Google's quotas are a project's.

import type { Clock } from "../../core/model/ports.ts"
import type { LogSource } from "./logging-api.ts"
import { type Follow, type Followed, ProjectReader } from "./project-reader.ts"

export class LogReader {
  readonly #api: LogSource
  readonly #clock: Clock
  readonly #projects = new Map<string, ProjectReader>()

  constructor(api: LogSource, clock: Clock) {
    this.#api = api
    this.#clock = clock
  }

  follow(wanted: Followed): Follow {
    const { project } = wanted
    const reader = this.#projects.get(project) ?? new ProjectReader(project, this.#api, this.#clock)
    this.#projects.set(project, reader)
    return reader.follow(wanted)
  }

  stop(): void {
    for (const reader of this.#projects.values()) reader.stop()
    this.#api.close()
  }
}
