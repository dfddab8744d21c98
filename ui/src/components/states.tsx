// Placeholders for missing data: loading, empty, or failed, each with advice.

import type { UseQueryResult } from "@tanstack/react-query"
import type { ReactElement, ReactNode } from "react"
import { ApiProblem, problemText } from "../api/http.ts"
import { Button } from "./button.tsx"
import { Icon, type IconName } from "./icon.tsx"

export const Loading = ({ what = "Loading", rows = 4 }: { what?: string; rows?: number }): ReactElement => (
  <div className="loading" role="status" aria-label={`${what}…`}>
    {Array.from({ length: rows }, (_, i) => (
      <div key={i} className="loading-row" />
    ))}
  </div>
)

export const Empty = ({
  title,
  icon = "info",
  children,
}: {
  title: string
  icon?: IconName
  children?: ReactNode
}): ReactElement => (
  <div className="empty">
    <Icon name={icon} className="empty-icon" />
    <p className="empty-title">{title}</p>
    {children === undefined ? null : <div className="empty-about">{children}</div>}
  </div>
)

const adviceOf = (error: unknown): string => {
  if (!(error instanceof ApiProblem))
    return "This is a bug in the web UI. Reload the page; if it persists, report it with the details below."
  if (error.status === 0) return "It is asked again by itself when the connection is back."
  if (error.status === 403) return "Sign in with a key that has the scope for this."
  if (error.status === 404) return "It may have been removed. Go back to the list."
  return error.status >= 500 ? "The server's log has more. Try again in a moment." : "Change what was asked for and try again."
}

export const ProblemState = ({ error, retry }: { error: unknown; retry?: () => void }): ReactElement => (
  <div className="empty problem" role="alert">
    <Icon name="warning" className="empty-icon" />
    <p className="empty-title">{problemText(error)}</p>
    <p className="empty-about">{adviceOf(error)}</p>
    {retry === undefined ? null : (
      <Button icon="retry" onClick={retry}>
        Try again
      </Button>
    )}
  </div>
)

/** Renders the data of a query, or its placeholder. Old data stays visible while new data is loading. */
export const Loaded = <T,>({
  query,
  children,
  what,
}: {
  query: UseQueryResult<T>
  children: (data: T) => ReactNode
  what?: string
}): ReactNode => {
  if (query.data !== undefined) return children(query.data)
  if (query.isError) return <ProblemState error={query.error} retry={() => void query.refetch()} />
  return <Loading {...(what !== undefined && { what })} />
}
