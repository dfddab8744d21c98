// Compiled workflows by version, cached. They never change.

import { BoundedMap } from "../../../core/values/bounded-map.ts"
import type { CompiledWorkflow, Node } from "../../../core/model/workflow.ts"
import { NotFound } from "../../contract/errors.ts"
import type { Database } from "../connection/database.ts"
import type { RunInfoCache } from "./run-info.ts"

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

interface Caches {
  runs: RunInfoCache
  workflows: Workflows
}

/** Returns the compiled workflow of a run. */
export const workflowOf = ({ runs, workflows }: Caches, runSeq: number): CompiledWorkflow =>
  workflows.get(runs.get(runSeq).versionId)

/** Returns the compiled task of a row. */
export const nodeOf = (caches: Caches, { runSeq, node }: { runSeq: number; node: number }): Node =>
  workflowOf(caches, runSeq).nodes[node]!
