// Cursors of lists: Base64 of the position after which the next page begins. A cursor that does not parse is a VALIDATION_ERROR.

import { isUuid } from "../../core/model/ids.ts"
import { invalidField } from "../shared/errors.ts"

export interface TimePosition {
  createdAt: string
  id: string
}

const TIMESTAMP = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/

const encode = (text: string): string => Buffer.from(text).toString("base64")

const badCursor = (): Error =>
  invalidField("cursor", "is not a cursor of this list; pass next_cursor of the previous response, or none")

const decode = (cursor: string): string => {
  const text = Buffer.from(cursor, "base64").toString("utf8")
  if (encode(text).replaceAll("=", "") !== cursor.replaceAll("=", "")) throw badCursor()
  return text
}

/** Returns the cursor of lists ordered by creation time: `{created_at_iso}|{id}`. */
export const timeCursor = (row: TimePosition): string => encode(`${row.createdAt}|${row.id}`)

export const parseTimeCursor = (cursor: string): TimePosition => {
  const [createdAt = "", id = "", ...more] = decode(cursor).split("|")
  if (more.length > 0 || !TIMESTAMP.test(createdAt) || Number.isNaN(Date.parse(createdAt)) || !isUuid(id)) throw badCursor()
  return { createdAt, id }
}

/** Returns the cursor of lists ordered by a number. `kind` identifies the list, so that no list accepts the cursor of another. */
export const numberCursor = (kind: string, value: number): string => encode(`${kind}|${value}`)

export const parseNumberCursor = (kind: string, cursor: string): number => {
  const [found, digits = ""] = decode(cursor).split("|")
  const value = Number(digits)
  if (found !== kind || !/^\d{1,16}$/.test(digits) || !Number.isSafeInteger(value)) throw badCursor()
  return value
}

export const nameCursor = (kind: string, name: string): string => encode(`${kind}|${name}`)

export const parseNameCursor = (kind: string, cursor: string): string => {
  const text = decode(cursor)
  const name = text.slice(kind.length + 1)
  if (!text.startsWith(`${kind}|`) || !/^[A-Za-z0-9_.-]{1,128}$/.test(name)) throw badCursor()
  return name
}

/** Returns the cursor of task instances, ordered by node and path. */
export const instanceCursor = ({ node, path }: { node: number; path: string }): string => encode(`i|${node}|${path}`)

export const parseInstanceCursor = (cursor: string): { node: number; path: string } => {
  const [, node, path] = /^i\|(\d{1,9})\|([\d.]{0,99})$/.exec(decode(cursor)) ?? []
  if (node === undefined || path === undefined) throw badCursor()
  return { node: Number(node), path }
}

export interface Page<T> {
  items: T[]
  next_cursor: string | null
  has_more: boolean
}

/** Makes a page from the result of a query for `limit + 1` rows. The extra row shows that there is a next page. */
export const pageOf = <Row, T>(
  rows: readonly Row[],
  limit: number,
  shape: (row: Row) => T,
  cursorOf: (row: Row) => string,
): Page<T> => {
  const shown = rows.slice(0, limit)
  const more = rows.length > limit
  return { items: shown.map(shape), next_cursor: more ? cursorOf(shown.at(-1)!) : null, has_more: more }
}
