// The two lists beside `tasks`: ready_queue holds the rows that may be claimed, in claim order; in_flight holds the rows that a holder
// owns. As indexes of `tasks` they would make every claim and every finish write to all of its indexes; so these writes touch none.
//
// Whoever changes the entries of a row has locked or just written the row. A list may contain stale entries, when a statement that
// waited for a lock did not see one (claims delete those that they find); it never misses a row: every statement that can make a
// row ready enqueues what it has written. A trigger in the tests checks both.

/** Returns the condition for the row `t` to be claimable. */
export const READY = (t: string): string =>
  `${t}.status = 'pending' AND ${t}.attempt_id IS NULL AND ${t}.upstream_pending = 0 AND ${t}.parked IS NULL
     AND ${t}.available_at IS NULL`

/** Returns the columns of a written row that `insertInto` and `deleteFrom` need. */
export const ENTRY = (t: string): string => `${t}.id, ${t}.lane, ${t}.priority, ${t}.workflow_id, ${t}.run_seq`
export const READINESS = (t: string): string => `${ENTRY(t)}, ${READY(t)} AS ready`

const LISTS = {
  ready_queue: { key: ["lane", "priority", "workflow_id", "run_seq", "id"], condition: "WHERE ready" },
  in_flight: { key: ["run_seq", "id"], condition: "" },
} as const

export type List = keyof typeof LISTS

/**
 * Adds rows that were not on the list. For ready_queue `rows` is a set with the columns READINESS, of which the ready ones are added;
 * for in_flight a set with run_seq and id.
 */
export const insertInto = (list: List, rows: string): string => {
  const { key, condition } = LISTS[list]
  return `INSERT INTO ${list} (${key.join(", ")}) SELECT ${key.join(", ")} FROM ${rows} ${condition}`
}

/**
 * Removes rows from the list. For ready_queue `rows` is a set with the columns ENTRY as they were while the rows were ready; for in_flight
 * a set with run_seq and id. Looks entries up one by one and deletes them by their ctid: a join would be planned once, perhaps while
 * the list is empty, and then read all of it for every row.
 */
export const deleteFrom = (list: List, rows: string): string =>
  `DELETE FROM ${list} q WHERE q.ctid = ANY (ARRAY(
       SELECT f.ctid FROM ${rows} e CROSS JOIN LATERAL (
         SELECT r.ctid FROM ${list} r WHERE ${LISTS[list].key.map((name) => `r.${name} = e.${name}`).join(" AND ")} OFFSET 0
       ) f))`

/** Returns the value of `inner_run` for a row that waits to be dispatched. */
export const INNER_RUN = (t: string): string => `CASE WHEN ${t}.parent_id IS NOT NULL THEN ${t}.run_seq END`

/**
 * Selects the rows `t` in flight, of one run (`where`) or of all. Looks each up by its id: a free join would read all of `tasks`, which is
 * mostly history.
 */
export const IN_FLIGHT_ROWS = (where = ""): string =>
  `(SELECT id FROM in_flight ${where} OFFSET 0) x CROSS JOIN LATERAL (SELECT * FROM tasks WHERE id = x.id AND holder IS NOT NULL OFFSET 0) t`
