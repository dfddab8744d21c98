// What a row must be to be taken; the predicate of the index tasks_ready, word for word, so that Postgres uses it.

export const READY = (t: string): string =>
  `${t}.status = 'pending' AND ${t}.attempt_id IS NULL AND ${t}.upstream_left = 0 AND ${t}.parked IS NULL
     AND ${t}.available_at IS NULL`
