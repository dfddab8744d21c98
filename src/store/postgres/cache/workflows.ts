// Compiled workflows by version, cached. They never change.

import type { CompiledWorkflow, Node } from "../../../core/model/workflow.ts"
import { NotFound } from "../../contract/errors.ts"
import type { ConnectionPool } from "../connection/connection-pool.ts"
import { statement } from "../connection/statement.ts"
import { TwoHalfMap } from "./cache.ts"

const MAX_CACHED = 1_000

const COMPILED = statement("compiled", "SELECT compiled FROM versions WHERE id = :versionId")

export class Workflows {
  readonly #pool: ConnectionPool
  readonly #compiled = new TwoHalfMap<number, CompiledWorkflow>(MAX_CACHED)

  constructor(pool: ConnectionPool) {
    this.#pool = pool
  }

  /** Returns the workflow of a version and caches it. */
  async compiled(versionId: number): Promise<CompiledWorkflow> {
    const cached = this.#compiled.get(versionId)
    if (cached !== undefined) return cached
    const [row] = await this.#pool.read((connection) => connection.run<{ compiled: string }>(COMPILED, { versionId }))
    if (row === undefined) throw new NotFound(`there is no workflow version ${versionId}`)
    const compiled = JSON.parse(row.compiled) as CompiledWorkflow
    this.#compiled.set(versionId, compiled)
    return compiled
  }

  /** Returns a loaded workflow. Throws when it is not loaded. */
  getLoaded(versionId: number): CompiledWorkflow {
    const cached = this.#compiled.get(versionId)
    if (cached === undefined) throw new NotFound(`workflow version ${versionId} is not in memory: await compiled() first`)
    return cached
  }

  isLoaded(versionId: number): boolean {
    return this.#compiled.get(versionId) !== undefined
  }

  /** Caches all of these versions. */
  async load(versionIds: Iterable<number>): Promise<void> {
    for (const id of new Set(versionIds)) if (!this.isLoaded(id)) await this.compiled(id)
  }

  /** Caches a version that was just stored. */
  add(versionId: number, compiled: CompiledWorkflow): void {
    this.#compiled.set(versionId, compiled)
  }
}

/** Returns the compiled task of a row whose workflow is loaded. */
export const nodeOf = (workflows: Workflows, { versionId, node }: { versionId: number; node: number }): Node =>
  workflows.getLoaded(versionId).nodes[node]!
