// Whether a commit wakes other processes on the same file: when one of its operations leaves work for them. A commit that creates jobs or
// runs, and then claims all rows that are ready, leaves none. Each operation continues the decision of the one before it in the
// transaction; that of an operation that throws is dropped.

export class WakeDecision {
  #leavesWork = false
  #leavesRows = false

  constructor(before?: WakeDecision) {
    if (before === undefined) return
    this.#leavesWork = before.#leavesWork
    this.#leavesRows = before.#leavesRows
  }

  /** Called when other processes may have work after the commit, whatever is claimed. */
  noteWorkLeft(): void {
    this.#leavesWork = true
  }

  /** Called when rows were created that other processes may claim, unless a later operation of the transaction claims them first. */
  noteRowsCreated(): void {
    this.#leavesRows = true
  }

  /** Called after a claim. `areLeft`: whether ready rows are left. */
  noteRowsClaimed(areLeft: () => boolean): void {
    this.#leavesRows &&= areLeft()
  }

  get wakesOthers(): boolean {
    return this.#leavesWork || this.#leavesRows
  }
}
