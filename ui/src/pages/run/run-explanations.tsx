import { useQuery } from "@tanstack/react-query"
import type { ReactElement } from "react"
import { explainQuery } from "../../api/queries.ts"
import type { Run } from "../../api/types.ts"

const ASK_AGAIN_MS = 15_000

/** Explanations of the run as a whole: why it waits, a problem of the server, notifications that did not arrive. */
export const RunExplanations = ({ run: { id, status, paused, finished_at } }: { run: Run }): ReactElement | null => {
  const query = useQuery({
    ...explainQuery(id, undefined, `${status} ${String(paused)}`),
    refetchInterval: finished_at === null ? ASK_AGAIN_MS : false,
  })
  const items = query.data?.items.filter(({ task }) => task === null) ?? []
  if (items.length === 0) return null
  return (
    <>
      {items.map(({ sentence }) => (
        <p key={sentence} className="explained">
          {sentence}
        </p>
      ))}
    </>
  )
}
