// What caused a run that a trigger created. Expressions read it as `run.cause`; the API shows it.

/** The successful runs of other workflows that the run followed, or the file or object that it was created for. */
export type RunCause = { runs: CausingRun[] } | { path: string }

export type CausingRun = { id: string; workflow: string }

/** Reads a cause from its column. */
export const causeOf = (column: string | null): RunCause | null => (column === null ? null : (JSON.parse(column) as RunCause))
