// The tasks that stand side by side: those of the workflow, or those of one group. Names and dependencies hold within it.

export interface NameScope {
  /** The group that it is the inside of; null: the workflow. */
  group: number | null
  outer: NameScope | null
  names: Map<string, number>
}
