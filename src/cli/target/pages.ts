// Reads paginated lists of the API.

import { everyItem, type Page, collect } from "../../protocol/client/client.ts"

const PAGE_SIZE = 100

type ListPage<Item> = (page: { limit: number; cursor?: string }) => Promise<Page<Item>>

/** Yields the items of all pages. `limit` bounds the page size, not the number of items. */
export const allItems = <Item>(list: ListPage<Item>, limit = Infinity): AsyncGenerator<Item> =>
  everyItem((cursor) => list({ limit: Math.min(limit, PAGE_SIZE), ...(cursor !== undefined && { cursor }) }))

/** Returns the first `limit` items, or all. */
export const firstItems = <Item>(list: ListPage<Item>, limit = Infinity): Promise<Item[]> =>
  collect(allItems(list, limit), limit)
