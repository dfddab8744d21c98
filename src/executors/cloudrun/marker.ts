// The marker of an attempt in the object store: written before its execution is started, and again with the execution's name.
// The next server continues from it.

import type { ObjectStore } from "../../objects/objects.ts"
import type { JobName } from "./shapes.ts"

export interface Marker {
  job: JobName
  /** Time before the start, by the clock of the server. */
  at: number
  /** Last part of the execution's name; null when not known. */
  execution: string | null
}

/** The key lies outside of the attempt's prefix, whose objects the next server deletes. */
const keyOf = (prefix: string): string => `${prefix.slice(0, -1)}.cloudrun.json`

export const readMarker = async (objects: ObjectStore, prefix: string): Promise<Marker | null> => {
  const content = await objects.get(keyOf(prefix))
  return content === null ? null : (JSON.parse(Buffer.from(content).toString("utf8")) as Marker)
}

export const writeMarker = (objects: ObjectStore, prefix: string, marker: Marker): Promise<void> =>
  objects.put(keyOf(prefix), JSON.stringify(marker))
