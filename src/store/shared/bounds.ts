// Bounds on the work of one transaction. The next one continues with the rest (`Advanced.more`).

/** Due retries that one `advance` makes ready, and timeouts of groups and expiries of jobs that it handles. */
export const MAX_DUE = 1000
/** Pending rows of cancelled runs that one `advance` cancels. */
export const MAX_CANCEL = 1000
/** Ready rows that one `advance` reads as candidates. */
export const MAX_CANDIDATES = 1000
/** Returns how many claims of the gate may be resumed rows; new rows use the rest. */
export const resumedShare = (maxClaims: number): number => Math.ceil(maxClaims / 2)
/** Workflows of one priority, and lanes of a wildcard, among which a claim is divided. */
export const MAX_SERVED = 64
/** Pending runs of a workflow that are started together. */
export const MAX_STARTS = 100
/** Runs that `pastDurations` averages. */
export const PAST_RUNS = 5
/** Jobs of the backlog up to which a search for READY jobs reads all of it. */
export const MAX_BACKLOG_READ = 10_000
/** Batches that one read of the event log reads. */
export const MAX_BATCHES = 500

/** Time for which the messages of removed runs are remembered: longer than a signature is accepted. */
export const MESSAGE_MS = 3_600_000
