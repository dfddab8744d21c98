// The run of a page for all of its views: the run and the live state of its tasks.

import { useQuery, type UseQueryResult } from "@tanstack/react-query"
import { createContext, use, useEffect, useEffectEvent, useMemo, useRef, useSyncExternalStore } from "react"
import { instancesPage, runGraph, runQuery } from "../api/queries.ts"
import type { Run } from "../api/types.ts"
import { useConnection, useLiveEvents } from "../live/live.ts"
import { RunModel } from "./run-model.ts"
import type { RunState } from "./state.ts"

export interface LiveRun {
  query: UseQueryResult<Run>
  /** null until the graph is loaded. Mutable: `version` indicates changes. */
  state: RunState | null
  version: number
  error: unknown
  reload: () => void
}

const hasEnded = (run: Run | undefined): boolean => run !== undefined && run.finished_at !== null

export const useRun = (runId: string): LiveRun => {
  const query = useQuery(runQuery(runId))
  const model = useMemo(
    () =>
      new RunModel({
        graph: (signal) => runGraph(runId, signal),
        instances: (cursor, signal) => instancesPage(runId, cursor, signal),
      }),
    [runId],
  )
  useEffect(() => {
    void model.load()
    return () => model.stop()
  }, [model])
  const ended = hasEnded(query.data)
  useLiveEvents(
    (events) => model.apply(events, ended),
    () => void model.load(),
  )
  // Events between the load and the first opening of the stream are unknown. A load may have failed while the server was down.
  const connection = useConnection()
  const opened = useRef(connection === "open")
  const reopened = useEffectEvent(() => {
    if ((!ended && !opened.current) || model.error !== null) void model.load()
    opened.current = true
  })
  useEffect(() => {
    if (connection === "open") reopened()
  }, [connection])
  const version = useSyncExternalStore(
    (listener) => model.subscribe(listener),
    () => model.version,
  )
  return { query, state: model.state, version, error: model.error, reload: () => void model.load() }
}

export const RunContext = createContext<LiveRun | null>(null)

/** Returns the run of the enclosing run page. */
export const useThisRun = (): LiveRun => {
  const run = use(RunContext)
  if (run === null) throw new Error("there is no run above this component")
  return run
}
