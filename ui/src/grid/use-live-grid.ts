// Keeps the grid up to date: fetches it again soon after one of its runs changed, at a limited rate.

import { useQueryClient } from "@tanstack/react-query"
import { useEffect, useRef } from "react"
import type { Grid } from "../api/types.ts"
import { gridQuery } from "../api/queries.ts"
import { useLiveEvents } from "../live/live.ts"

const REFETCH_MS = 1500

export const useLiveGrid = (workflow: string, runId: string): void => {
  const client = useQueryClient()
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null)
  useLiveEvents((events) => {
    if (timer.current !== null) return
    const { queryKey } = gridQuery(workflow, runId)
    const shown = new Set(client.getQueryData<Grid>(queryKey)?.runs.map(({ id }) => id))
    // An unknown run may be a new run of this workflow.
    const matters = events.some(({ event, run_id }) => run_id !== null && (shown.has(run_id) || event === "run"))
    if (!matters) return
    timer.current = setTimeout(() => {
      timer.current = null
      void client.invalidateQueries({ queryKey })
    }, REFETCH_MS)
  })
  useEffect(
    () => () => {
      if (timer.current !== null) clearTimeout(timer.current)
      timer.current = null
    },
    [],
  )
}
