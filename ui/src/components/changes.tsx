// Who changed a run, a workflow or a job: one line per change, newest first.

import { useQuery } from "@tanstack/react-query"
import type { ReactElement } from "react"
import { changesQuery } from "../api/queries.ts"
import type { Change } from "../api/types.ts"
import { Time } from "./time.tsx"

const WORDS: { [action: string]: string } = {
  "run.create": "Started",
  "run.hook": "Started by webhook",
  "run.cancel": "Cancelled",
  "run.retry": "Retried",
  "run.pause": "Paused",
  "run.resume": "Resumed",
  "task.approve": "Approved",
  "task.reject": "Rejected",
  "task.retry": "Retried",
  "task.mark": "Outcome set",
  "workflow.deploy": "Deployed",
  "workflow.pause": "Schedules paused",
  "workflow.resume": "Schedules resumed",
  "workflow.backfill": "Backfilled",
  "workflow.remove": "Removed",
  "job.create": "Created",
  "job.batch": "Created",
  "job.update": "Changed",
  "job.cancel": "Cancelled",
}

const textOf = ({ action, task, by, details }: Change): string => {
  const what = `${WORDS[action] ?? action}${task === null ? "" : ` ${task}`}`
  return `${what}${by === null ? "" : ` by ${by}`}${details === null ? "" : `: ${details}`}`
}

/** `state`: a text that changes with the run, workflow or job. */
export const Changes = ({ path, state }: { path: Parameters<typeof changesQuery>[0]; state: string }): ReactElement | null => {
  const { data: changes = [] } = useQuery(changesQuery(path, state))
  if (changes.length === 0) return null
  return (
    <details className="changes">
      <summary className="soft small">
        {textOf(changes[0]!)} <Time at={changes[0]!.at} />
      </summary>
      <ul className="soft small" aria-label="Changes">
        {changes.map((change) => (
          <li key={`${change.at} ${change.action} ${change.task ?? ""}`}>
            {textOf(change)} <Time at={change.at} />
          </li>
        ))}
      </ul>
    </details>
  )
}
