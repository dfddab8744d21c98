// Which task is opened: in the address, so that a link shows the same.

import { getRouteApi } from "@tanstack/react-router"
import { useCallback } from "react"

const route = getRouteApi("/shell/runs/$runId")

export interface Selection {
  /** null: none is opened. */
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
