// The SQL conditions on the task row `t` for core `cancelEffect`, in the common part of both databases' SQL.

/** The terms of the partial index of SQLite that finds such rows come first, and alone. */
const IS_UNCLAIMED = "t.status = 'pending' AND t.attempt_id IS NULL"

const HAS_NO_CHILDREN = "NOT (t.kind <> 'task' AND (t.started_at IS NOT NULL OR COALESCE(t.children_pending, 0) > 0))"

const HAS_SOME_CHILDREN =
  "t.kind <> 'task' AND t.started_at IS NOT NULL AND t.children_created < t.children_total AND t.children_pending > 0"

/** Condition: the row is unclaimed, and a cancel cancels it. A container with children is cancelled after them. */
export const IS_CANCELLABLE = `${IS_UNCLAIMED} AND ${HAS_NO_CHILDREN}`

/** Condition: the gate's holder died while it created the children of this container, which a cancel lets wait for those that exist. */
export const IS_HALF_CREATED = `${IS_UNCLAIMED} AND ${HAS_SOME_CHILDREN}`

/** Condition: a cancel changes the row in one of these ways. */
export const IS_AFFECTED_BY_CANCEL = `${IS_UNCLAIMED} AND (${HAS_NO_CHILDREN} OR ${HAS_SOME_CHILDREN})`
