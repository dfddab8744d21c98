// Finds the runs of a workflow with a logical date, for tasks that wait for them.

export const LOGICAL_DATES = `
CREATE INDEX runs_logical_date ON runs (workflow_id, logical_date) WHERE logical_date IS NOT NULL;
`
