// The source of a log: ranges of raw bytes and their times. One per attempt of a task, and one per job.

import { json, open, type Query, urlOf } from "../api/http.ts"
import type { Written } from "./lines.ts"

export interface Part {
  /** Shorter than requested only at the end of the log. */
  bytes: Uint8Array
  offset: number
  /** Current size of the whole log. */
  size: number
}

export interface LogPort {
  /** Reads a part of the log. A negative `offset` counts from the end. */
  read(offset: number, length: number, signal: AbortSignal): Promise<Part>
  times(offset: number, length: number, signal: AbortSignal): Promise<readonly Written[]>
}

export interface LogAddress {
  /** `/runs/{id}/tasks/{name}/logs`, `/jobs/{id}/logs` */
  path: string
  query: Query
}

export const taskLogAddress = (runId: string, name: string, path: string, attempt: number): LogAddress => ({
  path: `/runs/${runId}/tasks/${encodeURIComponent(name)}/logs`,
  query: { attempt, ...(path !== "" && { path }) },
})

export const jobLogAddress = (id: string): LogAddress => ({ path: `/jobs/${id}/logs`, query: {} })

export const downloadUrl = ({ path, query }: LogAddress): string => urlOf(path, query)

export const logPort = ({ path, query }: LogAddress): LogPort => ({
  read: async (offset, length, signal) => {
    const response = await open(path, { query: { ...query, offset, length }, signal })
    const bytes = new Uint8Array(await response.arrayBuffer())
    const next = Number(response.headers.get("x-ork-next-offset"))
    return { bytes, offset: next - bytes.byteLength, size: Number(response.headers.get("x-ork-size")) }
  },
  times: async (offset, length, signal) => {
    const { times } = await json<{ times: Written[] }>(`${path}/times`, { query: { ...query, offset, length }, signal })
    return times
  },
})
