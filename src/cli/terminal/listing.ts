// Lists as commands show them: a table for people, an array in the API's shapes for programs.

import type { Context } from "../target/backends.ts"
import { print, printJson, printSpans } from "./output.ts"
import type { Span } from "./style.ts"
import { printable, table } from "./text.ts"

export interface Listing<Item> {
  items: readonly Item[]
  /** Said when there are none. */
  none: string
  header: readonly string[]
  row(item: Item): readonly string[]
}

export const printListing = <Item>(context: Context, json: boolean, { items, none, header, row }: Listing<Item>): void => {
  if (json) printJson(context, items)
  else if (items.length === 0) print(context, none)
  else {
    const lines = table([header, ...items.map((item) => row(item).map(printable))])
    printSpans(
      context,
      lines.map((line, i): Span[] => (i === 0 ? [[line, "dim"]] : [line])),
    )
  }
}

/** `2026-01-31 10:00:00`, in UTC; empty for null. */
export const instantText = (at: string | null): string => (at === null ? "" : at.slice(0, 19).replace("T", " "))
