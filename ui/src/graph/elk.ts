// Computes the layout of a graph with ELK, in a worker that is reused. A layout that takes too long is aborted:
// the graph keeps the layout of layout.ts.

import ELK, { type ELK as Elk } from "elkjs/lib/elk-api.js"
import workerUrl from "elkjs/lib/elk-worker.min.js?url"
import { elkGraph, type Places, placesOf } from "./layout.ts"
import type { Shape } from "./model.ts"

const TIMEOUT_MS = 2000
/** Timeout of the first layout, which includes loading the worker's code. */
const FIRST_TIMEOUT_MS = 5000

let elk: Elk | null = null

/** Returns null if the layout was aborted. */
export const elkPlaces = async (shape: Shape, signal: AbortSignal): Promise<Places | null> => {
  const timeoutMs = elk === null ? FIRST_TIMEOUT_MS : TIMEOUT_MS
  elk ??= new ELK({ workerFactory: () => new Worker(workerUrl, { name: "layout" }) })
  const asked = elk
  const late = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
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
