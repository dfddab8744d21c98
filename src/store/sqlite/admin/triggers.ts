// Triggers of deployed workflows, and the successes that they wait for. A trigger keeps its row and id as long as it keeps its position in
// the definition.

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
import { putPaths } from "./path-triggers.ts"
import { createRuns } from "../runs/create.ts"
import type { Access, Tx } from "../tx.ts"

const EDGES = `
SELECT w.name AS workflow, u.upstream FROM trigger_upstreams u JOIN triggers t ON t.id = u.trigger_id JOIN workflows w ON w.id = t.workflow_id`

/** Throws a `Conflict` when the workflow would start itself, through the triggers of others. */
export const checkTriggers = (tx: Tx, workflow: CompiledWorkflow): void => {
  if (workflow.triggers !== undefined) rejectTriggerCycle(workflow, tx.db.list<TriggerEdge>(EDGES))
}

const PUT = `
INSERT INTO triggers (workflow_id, version_id, position, spec, active) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (workflow_id, position) DO UPDATE SET version_id = excluded.version_id, spec = excluded.spec, active = excluded.active
RETURNING id`

const REMOVE_UPSTREAMS = "DELETE FROM trigger_upstreams WHERE trigger_id = ?"

const ADD_UPSTREAM = "INSERT INTO trigger_upstreams (upstream, trigger_id) VALUES (?, ?)"

const REMOVE_UNKNOWN = `
DELETE FROM trigger_successes
WHERE trigger_id = ?1 AND upstream NOT IN (SELECT upstream FROM trigger_upstreams WHERE trigger_id = ?1)`

const REMOVE_FROM = "DELETE FROM triggers WHERE workflow_id = ? AND position >= ? RETURNING id"

/** Stores the triggers of a deployed version. A trigger keeps the successes of the workflows that it still waits for. */
export const putTriggers = (tx: Tx, { workflowId, versionId, active, specs }: DeployedTriggers): void => {
  for (const [position, spec] of specs.entries()) {
    const [id] = tx.db.get<[number]>(PUT, workflowId, versionId, position, JSON.stringify(spec), active ? 1 : 0)!
    tx.db.run(REMOVE_UPSTREAMS, id)
    for (const upstream of upstreams(spec)) tx.db.run(ADD_UPSTREAM, upstream, id)
    tx.db.run(REMOVE_UNKNOWN, id)
  }
  putPaths(tx, workflowId, specs)
  removeTriggersFrom(tx, workflowId, specs.length)
}

export const removeTriggers = (tx: Tx, workflowId: number): void => {
  putPaths(tx, workflowId, [])
  removeTriggersFrom(tx, workflowId, 0)
}

const removeTriggersFrom = (tx: Tx, workflowId: number, from: number): void => {
  for (const [id] of tx.db.all<[number]>(REMOVE_FROM, workflowId, from)) {
    tx.db.run(REMOVE_UPSTREAMS, id)
    tx.db.run(REMOVE_UNKNOWN, id)
  }
}

const SET_ACTIVE = "UPDATE triggers SET active = ? WHERE workflow_id = ?"

/** Pauses or resumes triggers. A paused one records no successes. */
export const pauseTriggers = (tx: Tx, workflowId: number, paused: boolean): void => {
  tx.db.run(SET_ACTIVE, paused ? 0 : 1, workflowId)
}

const OF_WORKFLOW = `${TRIGGER_COLUMNS} WHERE w.name = ? ORDER BY t.position`

const WITH_SUCCESSES = `
${TRIGGER_COLUMNS} WHERE t.id > ? AND EXISTS (SELECT 1 FROM trigger_successes s WHERE s.trigger_id = t.id) ORDER BY t.id LIMIT ? + 0`

const SUCCESSES = `
SELECT id, upstream AS workflow, run_id AS "runId", logical_date AS "logicalDate", timezone
FROM trigger_successes INDEXED BY trigger_successes_of_trigger WHERE trigger_id = ? ORDER BY id LIMIT ? + 0`

const COUNT = `
SELECT count(*) FROM trigger_successes WHERE trigger_id = ? AND id IN (SELECT value FROM json_each(?))`

const REMOVE = "DELETE FROM trigger_successes WHERE id IN (SELECT value FROM json_each(?))"

const SET_PROBLEM = "UPDATE triggers SET problem = ? WHERE id = ?"

const use = (tx: Tx, { triggerId, successes, outcome }: SuccessUse): RunRow | null => {
  const ids = JSON.stringify(successes)
  if (tx.db.get<[number]>(COUNT, triggerId, ids)![0] !== successes.length) return null
  tx.db.run(REMOVE, ids)
  if (outcome === null) return null
  const problem = "problem" in outcome ? outcome.problem : null
  tx.db.run(SET_PROBLEM, problem, triggerId)
  return "run" in outcome ? createRuns(tx, [outcome.run])[0]!.run : null
}

export const triggerStore = ({ read, write }: Access): TriggerStore => ({
  listTriggers: (workflow) => read(({ db }) => db.list<TriggerColumns>(OF_WORKFLOW, workflow).map(triggerOf)),
  triggersWithSuccesses: ({ after, limit }) =>
    read(({ db }) => db.list<TriggerColumns>(WITH_SUCCESSES, after, limit).map(triggerOf) as AfterTriggerRow[]),
  successesOf: (triggerId, limit) => read(({ db }) => db.list<UpstreamSuccess>(SUCCESSES, triggerId, limit)),
  useSuccesses: (uses) => write((tx) => uses.map((each) => use(tx, each))),
})
