// Compiled workflows by version, cached. They never change.

import { BoundedMap } from "../../../core/values/bounded-map.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { NotFound } from "../../contract/errors.ts"
import type { Database } from "../connection/database.ts"

const MAX_CACHED = 256

const READ = "SELECT compiled FROM versions WHERE id = ?"

export class Workflows {
  readonly #db: Database
  readonly #cache = new BoundedMap<number, CompiledWorkflow>(MAX_CACHED)

  constructor(db: Database) {
    this.#db = db
  }

  get(versionId: number): CompiledWorkflow {
    const cached = this.#cache.get(versionId)
    if (cached !== undefined) return cached
    const found = this.#db.get<[string]>(READ, versionId)
    if (found === undefined) throw new NotFound(`there is no workflow version ${versionId} in ${this.#db.where}`)
    const compiled = JSON.parse(found[0]) as CompiledWorkflow
    this.#cache.set(versionId, compiled)
    return compiled
  }

  clear(): void {
    this.#cache.clear()
  }
}
