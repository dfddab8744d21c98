// Workflows and their versions. A version never changes, so its compiled form is read once and kept.

import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { NotFound } from "../../contract/errors.ts"
import type { NewVersion, StoredVersion } from "../../contract/store.ts"
import { anyTextParam, replaceNul } from "../connection/array-params.ts"
import type { StoreClock } from "../connection/store-clock.ts"
import { BoundedMap } from "../cache/cache.ts"
import { putSchedules, removeSchedules, pauseSchedules, resumeSchedules } from "./schedules.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"
import type { ConnectionPool } from "../connection/connection-pool.ts"

const KEPT = 1_000

const PUT_WORKFLOW = statement(
  "put_workflow",
  `INSERT INTO workflows (name, created_at, updated_at)
   VALUES (:name, COALESCE(:now::timestamptz, now()), COALESCE(:now::timestamptz, now()))
   ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id, deployed_version, paused`,
)
const FIND_VERSION = statement(
  "find_version",
  "SELECT id, version FROM versions WHERE workflow_id = :workflowId AND hash = :hash",
)
const ADD_VERSION = statement(
  "add_version",
  `INSERT INTO versions (workflow_id, version, hash, source, compiled, bundle, created_at)
   SELECT :workflowId, COALESCE(max(version), 0) + 1, :hash, :source, :compiled, :bundle, COALESCE(:now::timestamptz, now())
   FROM versions WHERE workflow_id = :workflowId
   RETURNING id, version`,
)
const DEPLOY = statement(
  "deploy",
  `UPDATE workflows SET deployed_version = :versionId, tags = :tags,
     updated_at = CASE WHEN deployed_version = :versionId THEN updated_at ELSE COALESCE(:now::timestamptz, now()) END
   WHERE id = :workflowId`,
)
const VERSION_NUMBER = statement("version_number", "SELECT version FROM versions WHERE id = :versionId")
const COMPILED = statement("compiled", "SELECT compiled FROM versions WHERE id = :versionId")

interface Put {
  id: number
  deployed_version: number | null
  paused: boolean
}

export class Workflows {
  readonly #sessions: ConnectionPool
  readonly #clock: StoreClock
  readonly #compiled = new BoundedMap<number, CompiledWorkflow>(KEPT)

  constructor(sessions: ConnectionPool, instants: StoreClock) {
    this.#sessions = sessions
    this.#clock = instants
  }

  /** The workflow's row is locked by the upsert, so two deploys of it follow each other. */
  async put(tx: SqlRunner, input: NewVersion): Promise<StoredVersion> {
    const { compiled, deploy } = input
    const now = this.#clock.now()
    const {
      id: workflowId,
      deployed_version: deployed,
      paused,
    } = (await tx.run<Put>(PUT_WORKFLOW, { name: compiled.name, now }))[0]!
    if (deploy && input.ifNew === true && deployed !== null) {
      const [known] = await tx.run<{ version: number }>(VERSION_NUMBER, { versionId: deployed })
      return { workflowId, versionId: deployed, version: known!.version, outcome: "exists" }
    }
    const found = (await tx.run<{ id: number; version: number }>(FIND_VERSION, { workflowId, hash: input.hash }))[0]
    const { id: versionId, version } = found ?? (await this.#add(tx, workflowId, input))
    if (deploy) {
      await tx.run(DEPLOY, { workflowId, versionId, tags: JSON.stringify(compiled.tags), now })
      const specs = compiled.schedules
      await putSchedules(tx, { workflowId, versionId, active: !paused, specs, nextAt: input.nextAt ?? [] })
    }
    this.#compiled.set(versionId, compiled)
    const first = (found === undefined && version === 1) || (deploy && deployed === null)
    return { workflowId, versionId, version, outcome: first ? "new" : found === undefined ? "new_version" : "same" }
  }

  async #add(
    tx: SqlRunner,
    workflowId: number,
    { hash, source, compiled }: { hash: string; source: string; compiled: CompiledWorkflow },
  ): Promise<{ id: number; version: number }> {
    const params = {
      workflowId,
      hash,
      source: replaceNul(source),
      compiled: JSON.stringify(compiled),
      now: this.#clock.now(),
      bundle: compiled.bundle ?? null,
    }
    return (await tx.run<{ id: number; version: number }>(ADD_VERSION, params))[0]!
  }

  async compiled(versionId: number): Promise<CompiledWorkflow> {
    const known = this.#compiled.get(versionId)
    if (known !== undefined) return known
    const [row] = await this.#sessions.use((session) => session.run<{ compiled: string }>(COMPILED, { versionId }))
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

  /** Whether `now` answers for it. */
  knows(versionId: number): boolean {
    return this.#compiled.get(versionId) !== undefined
  }

  /** Makes `now` answer for all of these. */
  async load(versionIds: Iterable<number>): Promise<void> {
    for (const id of new Set(versionIds)) if (!this.knows(id)) await this.compiled(id)
  }
}

const BUNDLES_IN_USE = statement("bundles_in_use", "SELECT DISTINCT bundle FROM versions WHERE bundle = ANY(:hashes::text[])")

export const bundlesInUse = async (session: SqlRunner, hashes: string[]): Promise<string[]> =>
  (await session.run<{ bundle: string }>(BUNDLES_IN_USE, { hashes: anyTextParam(hashes) })).map(({ bundle }) => bundle)

const UNDEPLOY = statement(
  "undeploy",
  `UPDATE workflows SET deployed_version = NULL, paused = false, updated_at = COALESCE(:now::timestamptz, now())
   WHERE name = :name AND deployed_version IS NOT NULL RETURNING id`,
)

export const removeWorkflow = async (tx: SqlRunner, now: string | null, name: string): Promise<boolean> => {
  const [found] = await tx.run<{ id: number }>(UNDEPLOY, { name, now })
  if (found === undefined) return false
  await removeSchedules(tx, found.id)
  return true
}

const PAUSE = statement(
  "pause_workflow",
  "UPDATE workflows SET paused = :paused WHERE name = :name AND deployed_version IS NOT NULL RETURNING id",
)

export const setWorkflowPaused = async (
  tx: SqlRunner,
  { name, paused, nextAt }: { name: string; paused: boolean; nextAt: (string | null)[] },
): Promise<boolean> => {
  const [found] = await tx.run<{ id: number }>(PAUSE, { name, paused })
  if (found === undefined) return false
  if (paused) await pauseSchedules(tx, found.id)
  else await resumeSchedules(tx, found.id, nextAt)
  return true
}
