// The cause of a failure at the top of the run page: the instance, its exit code, its error and the end of its log.

import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import type { ReactElement } from "react"
import { logTailQuery, taskQuery } from "../../api/queries.ts"
import type { Run } from "../../api/types.ts"
import { Icon } from "../../components/icon.tsx"
import { plural } from "../../format/time.ts"
import { instanceName, type RunState } from "../../run/state.ts"
import { type Failure, failureOf, lastLines } from "./failure.ts"

const LINES = 5

export const FailureCard = ({ run, state }: { run: Run; state: RunState | null }): ReactElement | null => {
  if (run.status !== "failed") return null
  const failure = state === null ? null : failureOf(state)
  return (
    <section className="card failure" aria-label="Cause of the failure">
      {state === null || failure === null ? (
        <p className="failure-line">
          <Icon name="cross" />
          <strong>{run.error ?? "The run failed"}</strong>
        </p>
      ) : (
        <Cause runId={run.id} state={state} failure={failure} />
      )}
    </section>
  )
}

const Cause = ({ runId, state, failure }: { runId: string; state: RunState; failure: Failure }): ReactElement => {
  const { first, count } = failure
  const { name } = state.nodes[first.node]!
  const { path, attempt } = first
  const { data: task } = useQuery(taskQuery(runId, name, path, `failed ${attempt}`))
  const { data: tail } = useQuery({ ...logTailQuery(runId, name, path, attempt), enabled: attempt > 0 })
  const lines = lastLines(tail ?? "", LINES)
  const selected = { task: name, ...(path !== "" && { path }) }
  return (
    <>
      <p className="failure-line">
        <Icon name="cross" />
        <Link to="." search={(search) => ({ ...search, ...selected })} resetScroll={false}>
          <strong>{instanceName(name, first)}</strong>
        </Link>
        <span>failed{task?.exit_code == null ? "" : ` with exit code ${task.exit_code}`}</span>
        {attempt > 1 ? <span className="soft">after {plural(attempt, "attempt")}</span> : null}
      </p>
      {task?.error == null || task.error === `exit code ${task.exit_code}` ? null : (
        <p className="failure-error">{task.error}</p>
      )}
      {lines.length === 0 ? null : (
        <pre className="code failure-log" tabIndex={0} role="group" aria-label="Last lines of its log">
          <code>{lines.join("\n")}</code>
        </pre>
      )}
      <p className="failure-links small">
        {attempt === 0 ? null : (
          <Link to="." search={(search) => ({ ...search, ...selected, tab: "logs" as const })}>
            Open its log
          </Link>
        )}
        {count > 1 ? <span className="soft">{`${plural(count - 1, "other instance")} failed too`}</span> : null}
      </p>
    </>
  )
}
