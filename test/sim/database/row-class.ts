// Rows of a statement as objects with a getter per column. node:sqlite creates objects with a dictionary of properties each, which costs
// ten times as much as the array of values that these objects wrap.

type Value = string | number | null

/** The class of all rows of a statement: two rows are deeply equal if their values are. */
export type RowClass = new (values: readonly Value[]) => object

export const rowClassOf = (columns: readonly string[]): RowClass => {
  class Row {
    readonly values: readonly Value[]

    constructor(values: readonly Value[]) {
      this.values = values
    }

    toJSON(): Record<string, Value | undefined> {
      return Object.fromEntries(columns.map((column, i) => [column, this.values[i]]))
    }
  }
  for (const [i, column] of columns.entries()) {
    Object.defineProperty(Row.prototype, column, {
      get(this: Row) {
        return this.values[i]
      },
    })
  }
  return Row
}
