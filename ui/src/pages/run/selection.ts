// The opened task, stored in the address so that links show the same.

import { getRouteApi } from "@tanstack/react-router"
import { useCallback } from "react"

const route = getRouteApi("/shell/runs/$runId")

export interface Selection {
  /** null if no task is open. */
  task: string | null
  path: string
  open: (task: string, path?: string) => void
  close: () => void
}

export const useSelection = (): Selection => {
  const { task, path } = route.useSearch()
  const navigate = route.useNavigate()
  const open = useCallback(
    (name: string, at = ""): void => {
      void navigate({
        search: ({ task: _task, path: _path, attempt: _attempt, ...rest }) => ({
          ...rest,
          task: name,
          ...(at !== "" && { path: at }),
        }),
        resetScroll: false,
      })
    },
    [navigate],
  )
  const close = useCallback((): void => {
    void navigate({
      search: ({ task: _task, path: _path, attempt: _attempt, ...rest }) => rest,
      resetScroll: false,
    })
  }, [navigate])
  return { task: task ?? null, path: path ?? "", open, close }
}
