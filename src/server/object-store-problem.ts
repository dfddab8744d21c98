// Finds out why the object store cannot be used, for explanations of runs.

import { finishesWithin } from "../engine/finishes-within.ts"
import { messageOf } from "../core/values/error-message.ts"
import type { Clock } from "../core/model/ports.ts"
import type { ObjectStore } from "../objects/objects.ts"

const TIMEOUT_MS = 5000

/** Returns the problem of an object store that cannot be written, or that does not respond; null when it works. */
export const objectStoreProblem = async (objects: Pick<ObjectStore, "check">, clock: Clock): Promise<string | null> => {
  let problem: string | null = null
  const checked = objects.check().catch((error: unknown) => void (problem = messageOf(error)))
  return (await finishesWithin(clock, TIMEOUT_MS, checked)) ? problem : "the object store does not respond"
}
