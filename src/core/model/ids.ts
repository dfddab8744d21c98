// Ids are UUIDv7 in the API and integers in the store. A task's public id combines the run's id and the row number, so it needs no
// column and no index.

declare const brand: unique symbol
type Branded<Name extends string> = string & { readonly [brand]: Name }

export type RunId = Branded<"RunId">
export type TaskId = Branded<"TaskId">
export type AttemptId = Branded<"AttemptId">
export type HolderId = Branded<"HolderId">

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

let lastMs = -1
let lastTime = ""

/** Returns the first two groups of the UUID. Cached: ids of one millisecond share them. */
const timePart = (ms: number): string => {
  if (ms !== lastMs) {
    const time = ms.toString(16).padStart(12, "0")
    lastTime = `${time.slice(0, 8)}-${time.slice(8, 12)}`
    lastMs = ms
  }
  return lastTime
}

const VARIANT = "89ab89ab89ab89ab"

/** Makes a UUIDv7 from an instant and 32 random hex digits. */
export const uuidv7 = (ms: number, hex: string): string => {
  const variant = VARIANT[Number.parseInt(hex[3]!, 16)]!
  return `${timePart(ms)}-7${hex.slice(0, 3)}-${variant}${hex.slice(4, 7)}-${hex.slice(7, 19)}`
}

export const newRunId = (ms: number, hex: string): RunId => uuidv7(ms, hex) as RunId
export const newAttemptId = (ms: number, hex: string): AttemptId => uuidv7(ms, hex) as AttemptId
export const newHolderId = (ms: number, hex: string): HolderId => uuidv7(ms, hex) as HolderId

export const isUuid = (text: string): boolean => UUID.test(text)
export const parseRunId = (text: string): RunId | null => (UUID.test(text) ? (text as RunId) : null)

/** Replaces the last 40 bits of the run's id by the row number: unique, and sorts like the run. */
export const taskId = (runId: string, row: number): TaskId =>
  (runId.slice(0, 26) + row.toString(16).padStart(10, "0")) as TaskId

/** Returns the row number in a task's id. */
export const rowOf = (id: string): number => Number.parseInt(id.slice(26), 16)
