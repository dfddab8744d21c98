// Rows of a run as the rules plan them, before a store writes them.

/** `task`: one unit of work. `fan` and `group`: containers that finish with their instances, or with the tasks inside them. */
export type RowKind = "task" | "fan" | "group"

/** A limit on how many rows run at once; rows with the same key share its `cap` slots. */
export interface Limit {
  key: string
  cap: number
}

export interface NewRow {
  node: number
  kind: RowKind
  upstreamPending: number
  lane: string
  priority: number
  limits: Limit[]
}
