// Asks ELK for the places of a graph, in a worker that is kept for the next one. One that takes too long is ended and not waited for:
// the graph then stays as layout.ts placed it.

import ELK, { type ELK as Elk } from "elkjs/lib/elk-api.js"
import workerUrl from "elkjs/lib/elk-worker.min.js?url"
import { elkGraph, type Places, placesOf } from "./layout.ts"
import type { Shape } from "./model.ts"

const PATIENCE_MS = 2000
/** Before the first layout the worker's code has to be loaded. */
const FIRST_PATIENCE_MS = 5000

let elk: Elk | null = null

/** null: it was given up on. */
export const elkPlaces = async (shape: Shape, signal: AbortSignal): Promise<Places | null> => {
  const patience = elk === null ? FIRST_PATIENCE_MS : PATIENCE_MS
  elk ??= new ELK({ workerFactory: () => new Worker(workerUrl, { name: "layout" }) })
  const asked = elk
  const late = AbortSignal.any([signal, AbortSignal.timeout(patience)])
  try {
    const given = new Promise<null>((resolve) => late.addEventListener("abort", () => resolve(null), { once: true }))
    const laidOut = await Promise.race([asked.layout(elkGraph(shape)), given])
    if (laidOut !== null) return placesOf(laidOut)
    if (!signal.aborted) end(asked)
    return null
  } catch {
    end(asked)
    return null
  }
}

const end = (worker: Elk): void => {
  worker.terminateWorker()
  if (elk === worker) elk = null
}
