// Two lists beside `tasks`: the rows that may be taken (ready_queue), in the order in which they are, and those that somebody holds
// (in_flight). In an index of `tasks` itself every claim and every end would write to all of its indexes; so they touch none.
//
// Who changes a row's lists has the row locked, or has just written it. A list may name a row too many, when a statement that waited
// for a lock did not see the entry: claims remove what they come across and is not ready. It never names one too few: every
// statement that can make a row ready lists what it has written. The tests hold all statements to that.

/** What a row must be to be taken. */
export const READY = (t: string): string =>
  `${t}.status = 'pending' AND ${t}.attempt_id IS NULL AND ${t}.upstream_pending = 0 AND ${t}.parked IS NULL
     AND ${t}.available_at IS NULL`

/** What a statement returns of the rows that it has written, for the parts below. */
export const ENTRY = (t: string): string => `${t}.id, ${t}.lane, ${t}.priority, ${t}.workflow_id, ${t}.run_seq`
export const READINESS = (t: string): string => `${ENTRY(t)}, ${READY(t)} AS ready`

/** `rows`: a set with READINESS, none of which was ready before. */
export const ENQUEUE = (rows: string): string =>
  `INSERT INTO ready_queue (lane, priority, workflow_id, run_seq, id)
     SELECT lane, priority, workflow_id, run_seq, id FROM ${rows} WHERE ready`

/**
 * `rows`: a set with ENTRY, as it was while they were ready. Entries are looked up one by one and removed by their place, not joined:
 * Postgres plans once, and a list that was empty then would be read as a whole for every row when it is not.
 */
export const DEQUEUE = (rows: string): string =>
  `DELETE FROM ready_queue q WHERE q.ctid = ANY (ARRAY(
       SELECT f.ctid FROM ${rows} e CROSS JOIN LATERAL (
         SELECT r.ctid FROM ready_queue r WHERE r.lane = e.lane AND r.priority = e.priority AND r.workflow_id = e.workflow_id
           AND r.run_seq = e.run_seq AND r.id = e.id OFFSET 0
       ) f))`

/** `rows`: a set of rows (run_seq, id) that have a holder now, and had none. */
export const ADD_IN_FLIGHT = (rows: string): string => `INSERT INTO in_flight (run_seq, id) SELECT run_seq, id FROM ${rows}`

/** `rows`: a set of rows (run_seq, id) that have no holder any more. */
export const REMOVE_IN_FLIGHT = (rows: string): string =>
  `DELETE FROM in_flight h WHERE h.ctid = ANY (ARRAY(
       SELECT f.ctid FROM ${rows} e CROSS JOIN LATERAL (
         SELECT r.ctid FROM in_flight r WHERE r.run_seq = e.run_seq AND r.id = e.id OFFSET 0
       ) f))`

/** The value of `inner_run` for a row that waits to be dispatched. */
export const INNER_RUN = (t: string): string => `CASE WHEN ${t}.parent_id IS NOT NULL THEN ${t}.run_seq END`

/**
 * The rows `t` that somebody holds, `of` a run or of all; an entry too many has no holder. Each is looked up by its id: joined as it likes,
 * Postgres reads all of `tasks`, which is mostly history.
 */
export const IN_FLIGHT_ROWS = (of = ""): string =>
  `(SELECT id FROM in_flight ${of} OFFSET 0) x CROSS JOIN LATERAL (SELECT * FROM tasks WHERE id = x.id AND holder IS NOT NULL OFFSET 0) t`
