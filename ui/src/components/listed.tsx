// A list that is fetched in pages: the loaded entries in a card, with a button for more.

import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query"
import type { ReactElement, ReactNode } from "react"
import type { Page } from "../api/types.ts"
import { plural } from "../format/time.ts"
import { Button } from "./button.tsx"
import { Loading, ProblemState } from "./states.tsx"

export const itemsOf = <Item,>(data: InfiniteData<Page<Item>> | undefined): Item[] =>
  data?.pages.flatMap((page) => page.items) ?? []

export const Listed = <Item,>({
  query,
  noun,
  empty,
  children,
}: {
  query: UseInfiniteQueryResult<InfiniteData<Page<Item>>>
  noun: string
  /** Placeholder for an empty list. */
  empty: ReactNode
  children: (items: Item[]) => ReactNode
}): ReactElement => {
  const { data, error, hasNextPage, isFetchingNextPage, isPlaceholderData, fetchNextPage, refetch } = query
  if (data === undefined) {
    return (
      <div className="card">
        {error === null ? (
          <Loading what={`Loading ${noun}s`} rows={8} />
        ) : (
          <ProblemState error={error} retry={() => void refetch()} />
        )}
      </div>
    )
  }
  const items = itemsOf(data)
  if (items.length === 0) return <div className="card">{empty}</div>
  return (
    <div className="card" aria-busy={isPlaceholderData}>
      <div className="table-frame">{children(items)}</div>
      <div className="pager">
        <span>
          {plural(items.length, noun)}
          {hasNextPage ? ", and more" : ""}
        </span>
        {hasNextPage ? (
          <Button busy={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Show more
          </Button>
        ) : null}
      </div>
    </div>
  )
}
