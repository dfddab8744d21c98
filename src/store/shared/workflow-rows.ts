// Columns of workflows and versions, equal in both stores.

/** Columns of a workflow `w` and its deployed version `v`, without the compiled definition. */
export const WORKFLOW_COLUMNS = `
SELECT w.id, w.name, v.version, v.id AS "versionId", v.hash, v.source, w.paused, w.created_at AS "createdAt",
  w.updated_at AS "updatedAt"
FROM workflows w JOIN versions v ON v.id = w.deployed_version`

export const VERSION_COLUMNS = `
SELECT v.version, v.id AS "versionId", v.hash, v.source, v.created_at AS "createdAt", v.created_by AS "createdBy"
FROM workflows w JOIN versions v ON v.workflow_id = w.id`

/** Columns of a run `r` in the list of workflows. */
export const LAST_RUN_COLUMNS =
  'r.id, r.number, r.status, r.created_at AS "createdAt", r.started_at AS "startedAt", r.finished_at AS "finishedAt", r.idle_ms AS "idleMs"'
