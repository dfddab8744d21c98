// Checks the conditions of `wait` tasks outside of Ork: files, objects, URLs and databases. Implements `ConditionProbes` of the engine.

import type { AllowedHost } from "../../core/settings/http-allow.ts"
import type { Connections } from "../../core/settings/connections.ts"
import type { JsonObject } from "../../core/values/json.ts"
import type { SecretSource } from "../../core/model/ports.ts"
import type { MatchFinderOptions } from "../../objects/matches/matches.ts"
import { Files } from "./files.ts"
import type { Queries } from "./queries.ts"
import type { Requests } from "./requests.ts"

export interface ConditionOptions extends MatchFinderOptions {
  /** See `http_allow`. */
  allow: readonly AllowedHost[]
  connections: Connections
  maxOutputBytes: number
  secret: SecretSource
}

/** Loads the clients of URLs and databases with their first check. */
export class SystemConditions {
  readonly #options: ConditionOptions
  readonly #files: Files
  #requests: Promise<Requests> | null = null
  #queries: Promise<Queries> | null = null

  constructor(options: ConditionOptions) {
    this.#options = options
    this.#files = new Files(options)
  }

  paths(path: string, ownFolder?: string): Promise<string[]> {
    return this.#files.find(path, ownFolder)
  }

  async respond(request: Parameters<Requests["respond"]>[0]): Promise<{ response: JsonObject; expected: boolean }> {
    this.#requests ??= this.#loadRequests()
    return await (await this.#requests).respond(request)
  }

  async firstRow(query: Parameters<Queries["firstRow"]>[0]): Promise<JsonObject | null> {
    this.#queries ??= this.#loadQueries()
    return await (await this.#queries).firstRow(query)
  }

  async stop(): Promise<void> {
    await (await this.#requests)?.stop()
    await (await this.#queries)?.stop()
  }

  async #loadRequests(): Promise<Requests> {
    const { Requests } = await import("./requests.ts")
    return new Requests(this.#options)
  }

  async #loadQueries(): Promise<Queries> {
    const { Queries } = await import("./queries.ts")
    return new Queries(this.#options.connections, this.#options.secret)
  }
}
