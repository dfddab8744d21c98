import { useQuery } from "@tanstack/react-query"
import type { ReactElement } from "react"
import { ApiProblem } from "../api/http.ts"
import { readyQuery } from "../api/queries.ts"
import { Icon } from "../components/icon.tsx"

/** States why the server cannot work, such as a full disk. */
export const ServerProblem = (): ReactElement | null => {
  const { error } = useQuery(readyQuery)
  if (!(error instanceof ApiProblem) || error.status !== 503) return null
  return (
    <p className="banner" role="status">
      <Icon name="warning" />
      The server is {error.message}.
    </p>
  )
}
