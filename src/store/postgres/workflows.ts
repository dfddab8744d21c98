// Workflows and their versions. A version never changes, so its compiled form is read once and kept.

import type { CompiledWorkflow } from "../../core/workflow.ts"
import { NotFound } from "../errors.ts"
import type { Store, StoredVersion } from "../store.ts"
import { clean } from "./arrays.ts"
import type { Instants } from "./instants.ts"
import { Recent } from "./memory.ts"
import { statement } from "./session.ts"
import type { Sessions, Transaction } from "./transaction.ts"

const KEPT = 1_000

const PUT_WORKFLOW = statement(
  "put_workflow",
  `INSERT INTO workflows (name, created_at) VALUES ($1, COALESCE($2::timestamptz, now()))
   ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id`,
)
const FIND_VERSION = statement("find_version", "SELECT id, version FROM versions WHERE workflow_id = $1 AND hash = $2")
const ADD_VERSION = statement(
  "add_version",
  `INSERT INTO versions (workflow_id, version, hash, source, compiled, created_at)
   SELECT $1, COALESCE(max(version), 0) + 1, $2, $3, $4, COALESCE($5::timestamptz, now()) FROM versions WHERE workflow_id = $1
   RETURNING id, version`,
)
const DEPLOY = statement("deploy", "UPDATE workflows SET deployed_version = $2 WHERE id = $1")
const COMPILED = statement("compiled", "SELECT compiled FROM versions WHERE id = $1")

export class Workflows {
  readonly #sessions: Sessions
  readonly #instants: Instants
  readonly #compiled = new Recent<number, CompiledWorkflow>(KEPT)

  constructor(sessions: Sessions, instants: Instants) {
    this.#sessions = sessions
    this.#instants = instants
  }

  /** The workflow's row is locked by the upsert, so two deploys of it follow each other. */
  put(input: Parameters<Store["putWorkflow"]>[0]): Promise<StoredVersion> {
    return this.#sessions.transaction(async (tx) => {
      const now = this.#instants.now()
      const workflowId = (await tx.run<{ id: number }>(PUT_WORKFLOW, [input.compiled.name, now]))[0]!.id
      const found = (await tx.run<{ id: number; version: number }>(FIND_VERSION, [workflowId, input.hash]))[0]
      const stored = found ?? (await this.#add(tx, workflowId, input))
      if (input.deploy) await tx.run(DEPLOY, [workflowId, stored.id])
      this.#compiled.set(stored.id, input.compiled)
      const outcome = found !== undefined ? "same" : stored.version === 1 ? "new" : "new_version"
      return { workflowId, versionId: stored.id, version: stored.version, outcome }
    })
  }

  async #add(
    tx: Transaction,
    workflowId: number,
    { hash, source, compiled }: { hash: string; source: string; compiled: CompiledWorkflow },
  ): Promise<{ id: number; version: number }> {
    const values = [workflowId, hash, clean(source), JSON.stringify(compiled), this.#instants.now()]
    return (await tx.run<{ id: number; version: number }>(ADD_VERSION, values))[0]!
  }

  async compiled(versionId: number): Promise<CompiledWorkflow> {
    const known = this.#compiled.get(versionId)
    if (known !== undefined) return known
    const [row] = await this.#sessions.use((session) => session.run<{ compiled: string }>(COMPILED, [versionId]))
    if (row === undefined) throw new NotFound(`there is no workflow version ${versionId}`)
    const compiled = JSON.parse(row.compiled) as CompiledWorkflow
    this.#compiled.set(versionId, compiled)
    return compiled
  }

  now(versionId: number): CompiledWorkflow {
    const known = this.#compiled.get(versionId)
    if (known === undefined) throw new NotFound(`workflow version ${versionId} is not in memory: await compiled() first`)
    return known
  }

  /** Makes `now` answer for all of these. */
  async load(versionIds: Iterable<number>): Promise<void> {
    for (const id of new Set(versionIds)) if (this.#compiled.get(id) === undefined) await this.compiled(id)
  }
}
