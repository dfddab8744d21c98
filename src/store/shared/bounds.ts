// How much one transaction does at most; what is left goes on with the next one (`Advanced.more`).

/** Due retries that one `advance` makes ready. */
export const MAX_DUE = 1000
/** Pending rows of cancelled runs that one `advance` ends. */
export const MAX_CANCEL = 1000
/** Ready rows that one `advance` looks at to find what it may claim. */
export const MAX_CANDIDATES = 1000
/** Workflows of one priority among which a claim is divided. */
export const MAX_GROUPS = 64
/** Lanes of calls that a claim looks at for those of its functions. */
export const MAX_CALL_LANES = 4096
/** Runs on which `pastDurations` is based. */
export const PAST_RUNS = 5
/** Batches of events that one read looks at. */
export const MAX_BATCHES = 500

/** `parked` of rows below a group that waits for its slots: nobody looks at them before. */
export const HELD_BACK = -1
