// Prints lists: a table for people, an array in the format of the API with `--json`.

import { print, printJson, printSpans, type Terminal } from "./output.ts"
import type { Span } from "./style.ts"
import { printable, table } from "./text.ts"

export interface Listing<Item> {
  items: readonly Item[]
  none: string
  header: readonly string[]
  row(item: Item): readonly string[]
}

/** Returns exit code 0. */
export const printListing = <Item>(
  terminal: Terminal,
  options: { json?: boolean },
  { items, none, header, row }: Listing<Item>,
): number => {
  if (options.json === true) printJson(terminal, items)
  else if (items.length === 0) print(terminal, none)
  else {
    const lines = table([header, ...items.map((item) => row(item).map(printable))])
    printSpans(
      terminal,
      lines.map((line, i): Span[] => (i === 0 ? [[line, "dim"]] : [line])),
    )
  }
  return 0
}
