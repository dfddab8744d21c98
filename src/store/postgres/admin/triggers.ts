// Triggers of deployed workflows, and the successes that they wait for. A trigger keeps its row and id as long as it keeps its position in
// the definition. Callers lock the row of the workflow before they change its triggers.

import type { TriggerEdge } from "../../../core/rules/runs/trigger-cycle.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import type { RunRow } from "../../contract/store.ts"
import type { AfterTriggerRow, SuccessUse, TriggerStore, UpstreamSuccess } from "../../contract/triggers.ts"
import {
  type DeployedTriggers,
  rejectTriggerCycle,
  TRIGGER_COLUMNS,
  type TriggerColumns,
  triggerOf,
  upstreams,
} from "../../shared/triggers.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { putPaths } from "./path-triggers.ts"
import { createRuns } from "../runs/create.ts"
import type { Access, Tx } from "../tx.ts"

/** Deployments of triggers follow each other: two at the same time could form a cycle that neither sees. Reads go on meanwhile. */
const LOCK_EDGES = statement("triggers_lock_edges", "LOCK TABLE trigger_upstreams IN SHARE ROW EXCLUSIVE MODE")

const EDGES = statement(
  "triggers_edges",
  `SELECT w.name AS workflow, u.upstream
   FROM trigger_upstreams u JOIN triggers t ON t.id = u.trigger_id JOIN workflows w ON w.id = t.workflow_id`,
)

/** Throws a `Conflict` when the workflow would start itself, through the triggers of others. */
export const checkTriggers = async (tx: SqlRunner, workflow: CompiledWorkflow): Promise<void> => {
  if (workflow.triggers === undefined) return
  await tx.run(LOCK_EDGES)
  rejectTriggerCycle(workflow, await tx.run<TriggerEdge>(EDGES))
}

const PUT = statement(
  "triggers_put",
  `INSERT INTO triggers (workflow_id, version_id, position, spec, active)
   VALUES (:workflowId, :versionId, :position, :spec, :active)
   ON CONFLICT (workflow_id, position) DO UPDATE SET version_id = excluded.version_id, spec = excluded.spec, active = excluded.active
   RETURNING id`,
)

const REMOVE_UPSTREAMS = statement(
  "triggers_remove_upstreams",
  "DELETE FROM trigger_upstreams WHERE trigger_id = :id AND upstream <> ALL (:kept::text[])",
)

const ADD_UPSTREAMS = statement(
  "triggers_add_upstreams",
  `INSERT INTO trigger_upstreams (upstream, trigger_id) SELECT u, :id FROM unnest(:upstreams::text[]) AS u ON CONFLICT DO NOTHING`,
)

const REMOVE_UNKNOWN = statement(
  "triggers_remove_unknown",
  "DELETE FROM trigger_successes WHERE trigger_id = :id AND upstream <> ALL (:kept::text[])",
)

const REMOVE_FROM = statement(
  "triggers_remove",
  "DELETE FROM triggers WHERE workflow_id = :workflowId AND position >= :from RETURNING id",
)

/** Stores the triggers of a deployed version. A trigger keeps the successes of the workflows that it still waits for. */
export const putTriggers = async (tx: SqlRunner, { workflowId, versionId, active, specs }: DeployedTriggers): Promise<void> => {
  for (const [position, spec] of specs.entries()) {
    const put = { workflowId, versionId, position, spec: JSON.stringify(spec), active }
    const [row] = await tx.run<{ id: number }>(PUT, put)
    await keepUpstreams(tx, row!.id, upstreams(spec))
    await tx.run(ADD_UPSTREAMS, { id: row!.id, upstreams: upstreams(spec) })
  }
  await putPaths(tx, workflowId, specs)
  await removeTriggersFrom(tx, workflowId, specs.length)
}

export const removeTriggers = async (tx: SqlRunner, workflowId: number): Promise<void> => {
  await putPaths(tx, workflowId, [])
  await removeTriggersFrom(tx, workflowId, 0)
}

const removeTriggersFrom = async (tx: SqlRunner, workflowId: number, from: number): Promise<void> => {
  for (const { id } of await tx.run<{ id: number }>(REMOVE_FROM, { workflowId, from })) await keepUpstreams(tx, id, [])
}

const keepUpstreams = async (tx: SqlRunner, id: number, kept: readonly string[]): Promise<void> => {
  await tx.run(REMOVE_UPSTREAMS, { id, kept })
  await tx.run(REMOVE_UNKNOWN, { id, kept })
}

const SET_ACTIVE = statement("triggers_set_active", "UPDATE triggers SET active = :active WHERE workflow_id = :workflowId")

/** Pauses or resumes triggers. A paused one records no successes. */
export const pauseTriggers = async (tx: SqlRunner, workflowId: number, paused: boolean): Promise<void> => {
  await tx.run(SET_ACTIVE, { workflowId, active: !paused })
}

const OF_WORKFLOW = statement("triggers_of_workflow", `${TRIGGER_COLUMNS} WHERE w.name = :workflow ORDER BY t.position`)

const WITH_SUCCESSES = statement(
  "triggers_with_successes",
  `${TRIGGER_COLUMNS} WHERE t.id > :after::bigint AND EXISTS (SELECT 1 FROM trigger_successes s WHERE s.trigger_id = t.id)
   ORDER BY t.id LIMIT :limit::int`,
)

const SUCCESSES = statement(
  "triggers_successes",
  `SELECT id, upstream AS workflow, run_id AS "runId", logical_date AS "logicalDate", timezone
   FROM trigger_successes WHERE trigger_id = :triggerId::bigint ORDER BY id LIMIT :limit::int`,
)

const LOCK = statement(
  "triggers_lock",
  `SELECT id FROM workflows WHERE id IN (SELECT workflow_id FROM triggers WHERE id = ANY (:ids::bigint[])) ORDER BY id FOR UPDATE`,
)

const COUNT = statement(
  "triggers_count",
  "SELECT count(*)::int AS count FROM trigger_successes WHERE trigger_id = :triggerId::bigint AND id = ANY (:successes::bigint[])",
)

const REMOVE = statement("triggers_use", "DELETE FROM trigger_successes WHERE id = ANY (:successes::bigint[])")

const SET_PROBLEM = statement("triggers_set_problem", "UPDATE triggers SET problem = :problem::text WHERE id = :triggerId")

const use = async (tx: Tx, { triggerId, successes, outcome }: SuccessUse): Promise<RunRow | null> => {
  const [found] = await tx.run<{ count: number }>(COUNT, { triggerId, successes })
  if (found!.count !== successes.length) return null
  await tx.run(REMOVE, { successes })
  if (outcome === null) return null
  await tx.run(SET_PROBLEM, { triggerId, problem: "problem" in outcome ? outcome.problem : null })
  return "run" in outcome ? (await createRuns(tx, [outcome.run]))[0]!.run : null
}

export const triggerStore = ({ read, writeAndNotify, workflows }: Access): TriggerStore => ({
  listTriggers: (workflow) =>
    read(async (connection) => (await connection.run<TriggerColumns>(OF_WORKFLOW, { workflow })).map(triggerOf)),
  triggersWithSuccesses: (query) =>
    read(
      async (connection) => (await connection.run<TriggerColumns>(WITH_SUCCESSES, query)).map(triggerOf) as AfterTriggerRow[],
    ),
  successesOf: (triggerId, limit) => read((connection) => connection.run<UpstreamSuccess>(SUCCESSES, { triggerId, limit })),
  useSuccesses: async (uses) => {
    await workflows.load(uses.flatMap(({ outcome }) => (outcome !== null && "run" in outcome ? outcome.run.versionId : [])))
    return writeAndNotify(async (tx) => {
      await tx.run(LOCK, { ids: [...new Set(uses.map(({ triggerId }) => triggerId))] })
      const runs: (RunRow | null)[] = []
      for (const each of uses) runs.push(await use(tx, each))
      return runs
    })
  },
})
