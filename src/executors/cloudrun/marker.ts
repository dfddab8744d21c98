// What an attempt leaves in the object store about its execution: that it is about to be started, then its name. The next server goes
// on from there.

import type { ObjectStore } from "../../objects/objects.ts"
import type { JobName } from "./shapes.ts"

export interface Marker {
  job: JobName
  /** When it was about to be started, by the clock of the server. */
  at: number
  /** The last part of its name; null: not known. */
  execution: string | null
}

/** Beside the attempt's other objects: whoever goes on with it removes those, and must not lose this. */
const keyOf = (prefix: string): string => `${prefix.slice(0, -1)}.cloudrun.json`

export const readMarker = async (objects: ObjectStore, prefix: string): Promise<Marker | null> => {
  const content = await objects.get(keyOf(prefix))
  return content === null ? null : (JSON.parse(Buffer.from(content).toString("utf8")) as Marker)
}

export const writeMarker = (objects: ObjectStore, prefix: string, marker: Marker): Promise<void> =>
  objects.put(keyOf(prefix), JSON.stringify(marker))
