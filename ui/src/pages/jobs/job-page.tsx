// One job: status, dependencies, output and log.

import { useMutation, useQueries, useQuery, useQueryClient } from "@tanstack/react-query"
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router"
import { type ReactElement, type ReactNode, useState } from "react"
import { calls } from "../../api/calls.ts"
import { explainJobQuery, jobQuery, jobResultQuery } from "../../api/queries.ts"
import type { Job } from "../../api/types.ts"
import { StatusBadge } from "../../components/badge.tsx"
import { Button } from "../../components/button.tsx"
import { JsonView } from "../../components/code.tsx"
import { ConfirmDialog } from "../../components/dialog.tsx"
import { Changes } from "../../components/changes.tsx"
import { Facts } from "../../components/facts.tsx"
import { Menu } from "../../components/menu.tsx"
import { PageHead } from "../../components/page-head.tsx"
import { Loaded } from "../../components/states.tsx"
import { Duration, ExactTime, Time } from "../../components/time.tsx"
import { showMessage, showProblem } from "../../components/toast.tsx"
import { durationText } from "../../format/time.ts"
import { useMay } from "../../session/session.ts"
import { jobLogAddress } from "../../logs/log-port.ts"
import { LogView } from "../../logs/log-view.tsx"

const route = getRouteApi("/shell/jobs/$jobId")

/** Further dependencies are listed by id only. */
const DEPENDENCIES_SHOWN = 30

export const JobPage = (): ReactElement => {
  const { jobId } = route.useParams()
  const query = useQuery(jobQuery(jobId))
  return (
    <div className="page">
      <Loaded query={query} what="Loading the job">
        {(job) => <JobDetails job={job} />}
      </Loaded>
    </div>
  )
}

const ended = ({ status }: Job): boolean => status === "COMPLETED" || status === "FAILED" || status === "BLOCKED"

const retryText = ({ retry, retry_policy: policy }: Job): string =>
  retry === null
    ? `${policy.backoff_strategy.toLowerCase()}, ${durationText(policy.base_delay_seconds * 1000)} to ${durationText(policy.max_delay_seconds * 1000)}`
    : `${retry.backoff}, ${retry.base_delay} to ${retry.max_delay}`

const JobDetails = ({ job }: { job: Job }): ReactElement => (
  <>
    <PageHead
      title={job.name}
      up={{ to: "/jobs", text: "Jobs" }}
      beside={<StatusBadge status={job.status} />}
      actions={<Actions job={job} />}
    >
      {job.error === null ? null : <p className="error-line">{job.error}</p>}
      {job.status === "PENDING" || job.status === "READY" || job.status === "BLOCKED" ? <WhyItWaits job={job} /> : null}
    </PageHead>
    <section className="card card-body" aria-label="Facts">
      <JobFacts job={job} />
      <Changes path={`/jobs/${job.id}`} state={`${job.status} ${job.updated_at}`} />
    </section>
    <Dependencies ids={job.dependencies} />
    <div className="columns">
      <section className="stack" aria-labelledby="payload-title">
        <h2 id="payload-title">Payload</h2>
        <JsonView value={job.payload} label="Payload" />
        {job.task === null ? null : (
          <>
            <h2>Task</h2>
            <JsonView value={job.task} label="Task" />
          </>
        )}
      </section>
      <section className="stack" aria-labelledby="result-title">
        <h2 id="result-title">Result</h2>
        <Result job={job} />
      </section>
    </div>
    <JobLog job={job} live={!ended(job)} />
  </>
)

const JobFacts = ({ job }: { job: Job }): ReactElement => (
  <Facts
    facts={[
      [
        "Queue",
        <Link key="queue" to="/jobs" search={{ queue: job.queue }}>
          {job.queue}
        </Link>,
      ],
      ["Priority", job.priority],
      ["Attempts", `${job.attempt_count} of ${job.max_attempts}`],
      ["Retries", retryText(job)],
      ["Created", <ExactTime key="created" at={job.created_at} />],
      job.created_by === null ? null : ["By", job.created_by],
      job.available_at === null || ended(job) ? null : ["Due", <Time key="due" at={job.available_at} />],
      ["Duration", <Duration key="duration" from={job.started_at} to={job.finished_at} />],
      job.worker === null ? null : ["Worker", job.worker],
      job.progress === null || job.progress.fraction === null
        ? null
        : ["Progress", `${Math.floor(job.progress.fraction * 100)} %`],
      job.concurrency_key === null ? null : ["Concurrency key", `${job.concurrency_key} (${job.concurrency_limit} at once)`],
      job.limits.length === 0 ? null : ["Limits", job.limits.map(({ key, cap }) => `${key} (${cap} at once)`).join(", ")],
      job.group === null ? null : ["Group", job.group],
      job.idempotency_key === null ? null : ["Key", job.idempotency_key],
      job.timeout === null ? null : ["Timeout", job.timeout],
      job.expires === null ? null : ["Expires", `${job.expires} after it is available`],
      ["Id", <code key="id">{job.id}</code>],
    ]}
  />
)

const ASK_AGAIN_MS = 5000

const WhyItWaits = ({ job }: { job: Job }): ReactElement | null => {
  const query = useQuery({ ...explainJobQuery(job.id, job.status), refetchInterval: ASK_AGAIN_MS })
  const found = query.data?.items[0]
  return found === undefined ? null : <p className="explained">{found.sentence}</p>
}

const Result = ({ job }: { job: Job }): ReactNode => {
  const query = useQuery({ ...jobResultQuery(job.id), enabled: ended(job) })
  if (!ended(job)) return <p className="soft">It has not finished yet.</p>
  return (
    <Loaded query={query} what="Loading the result">
      {(result) => (
        <>
          {result.exit_code === null ? null : <p className="soft">Exit code {result.exit_code}</p>}
          {result.output_object === null ? (
            <JsonView value={result.output} label="Result" />
          ) : (
            <p className="soft">
              Kept in the object store as <code>{result.output_object.key}</code>.
            </p>
          )}
        </>
      )}
    </Loaded>
  )
}

const Dependencies = ({ ids }: { ids: readonly string[] }): ReactNode => {
  const jobs = useQueries({ queries: ids.slice(0, DEPENDENCIES_SHOWN).map((id) => jobQuery(id)) })
  if (ids.length === 0) return null
  return (
    <section className="card" aria-labelledby="dependencies-title">
      <header className="card-head">
        <h2 id="dependencies-title">Depends on</h2>
      </header>
      <ul className="card-body bulk-list">
        {ids.map((id, i) => {
          const job = jobs[i]?.data
          return (
            <li key={id}>
              <Link to="/jobs/$jobId" params={{ jobId: id }}>
                {job?.name ?? id}
              </Link>
              {job === undefined ? null : <StatusBadge status={job.status} />}
            </li>
          )
        })}
      </ul>
    </section>
  )
}

type Verb = "cancel" | "retry" | "delete"

/** The end of the message after an action. */
const DONE = { cancel: "is being cancelled", retry: "runs again", delete: "is deleted" } as const satisfies Record<Verb, string>

const Actions = ({ job }: { job: Job }): ReactNode => {
  const [asked, setAsked] = useState<"cancel" | "delete" | null>(null)
  const may = useMay("trigger")
  const client = useQueryClient()
  const navigate = useNavigate()
  const act = useMutation({
    mutationFn: async (verb: Verb): Promise<void> => {
      if (verb === "cancel") await calls.cancelJob(job.id)
      else if (verb === "retry") await calls.retryJob(job.id)
      else await calls.removeJob(job.id)
    },
    onSuccess: async (_none, verb) => {
      setAsked(null)
      showMessage(`${job.name} ${DONE[verb]}`)
      if (verb === "delete") {
        client.removeQueries({ queryKey: ["job", job.id] })
        await navigate({ to: "/jobs" })
      } else await client.invalidateQueries({ queryKey: ["job", job.id] })
      await client.invalidateQueries({ queryKey: ["jobs"] })
    },
    onError: (error, verb) => showProblem(`Could not ${verb} ${job.name}`, error),
  })
  if (!may) return null
  return (
    <>
      {job.status === "FAILED" ? (
        <Button icon="retry" busy={act.isPending} onClick={() => act.mutate("retry")}>
          Retry
        </Button>
      ) : null}
      {ended(job) ? null : (
        <Button kind="danger" icon="stop" onClick={() => setAsked("cancel")}>
          Cancel
        </Button>
      )}
      <Menu label="More actions" items={[{ text: "Delete", icon: "trash", onSelect: () => setAsked("delete") }]} />
      <ConfirmDialog
        open={asked !== null}
        onClose={() => setAsked(null)}
        title={asked === "delete" ? `Delete ${job.name}?` : `Cancel ${job.name}?`}
        description={
          asked === "delete"
            ? "The job, its log and its result go. A running one is killed. One that others depend on cannot be deleted."
            : "It ends as failed, and what depends on it is blocked."
        }
        action={asked === "delete" ? "Delete" : "Cancel the job"}
        kind="danger"
        busy={act.isPending}
        onConfirm={() => act.mutate(asked ?? "cancel")}
      />
    </>
  )
}

/** The log of the latest attempt. */
const JobLog = ({ job, live }: { job: Job; live: boolean }): ReactElement => (
  <section className="stack" aria-labelledby="log-title">
    <h2 id="log-title">Log</h2>
    {job.attempt_count === 0 ? (
      <p className="soft">It has not begun.</p>
    ) : (
      <LogView
        key={job.attempt_count}
        address={jobLogAddress(job.id)}
        live={live}
        label={`Log of ${job.name}`}
        fileName={`${job.id}.log`}
        small
      />
    )}
  </section>
)
