/** Names of the tasks that lie side by side, at the top level or in one group. Dependencies refer to tasks of the same scope. */
export interface NameScope {
  /** Index of the group; null: the top level. */
  group: number | null
  outer: NameScope | null
  /** Index of each task, by its short name. */
  names: Map<string, number>
}
