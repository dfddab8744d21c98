// The steps of a run of a durable function.

import { useQuery, useQueryClient } from "@tanstack/react-query"
import { type ReactElement, useEffect, useState } from "react"
import { stepsQuery } from "../../api/queries.ts"
import type { Step } from "../../api/types.ts"
import { Button } from "../../components/button.tsx"
import { useNow } from "../../components/now.ts"
import { Empty, Loaded } from "../../components/states.tsx"
import { useThisRun } from "../../run/use-run.ts"
import { useMayFor } from "../../session/session.ts"
import { linesOf } from "../../steps/model.ts"
import { StepsView } from "../../steps/steps-view.tsx"
import { type Retried, RetryDialog } from "./retry-dialog.tsx"
import { ApprovalBox, type ApprovalRequest } from "./task-panel-actions.tsx"

/** Steps that follow each other without a wait cause no event. */
const LIVE_MS = 2000

export const StepsTab = (): ReactElement | null => {
  const { query: run, version } = useThisRun()
  const { id = "", started_at: startedAt = null, finished_at: finishedAt = null } = run.data ?? {}
  const live = finishedAt === null
  const query = useQuery({ ...stepsQuery(id), refetchInterval: live ? LIVE_MS : false })
  const client = useQueryClient()
  useEffect(() => void client.invalidateQueries({ queryKey: stepsQuery(id).queryKey }), [client, id, version])
  const now = useNow(live)
  const [retried, setRetried] = useState<Retried | null>(null)
  const mayRetry = useMayFor(run.data?.workflow ?? "", "trigger") && !live
  const actions = (step: Step): ReactElement | null =>
    live && step.kind === "approval" && step.state === "waiting" ? (
      <ApprovalBox at={{ runId: id, name: step.name, path: String(step.occurrence) }} waiting={requestOf(step)} />
    ) : mayRetry ? (
      <div>
        <Button icon="retry" onClick={() => setRetried({ kind: "step", id, step: keyOf(step) })}>
          Retry from this step
        </Button>
      </div>
    ) : null
  const times = {
    startedAt: startedAt === null ? now : Date.parse(startedAt),
    finishedAt: finishedAt === null ? null : Date.parse(finishedAt),
    now,
  }
  return (
    <section className="card" aria-label="Steps">
      <Loaded query={query} what="Loading the steps">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No step is recorded yet" icon="clock">
              A step appears when its result is recorded, or when it begins to wait.
            </Empty>
          ) : (
            <StepsView lines={linesOf(items, times)} actions={actions} />
          )
        }
      </Loaded>
      <RetryDialog retried={retried} onClose={() => setRetried(null)} />
    </section>
  )
}

const requestOf = ({ message, default: fallback, until }: Step): ApprovalRequest => ({
  message: message ?? undefined,
  default: fallback ?? undefined,
  until,
})

const keyOf = ({ name, occurrence }: Step): { name: string; occurrence: number } => ({ name, occurrence })
