// The details of one instance: times, attempts, error, definition, input and output.

import type { ReactElement, ReactNode } from "react"
import { urlOf } from "../../api/http.ts"
import { shortBytes } from "../../../../src/core/values/quantities.ts"
import type { Attempt, Task } from "../../api/types.ts"
import { StatusBadge } from "../../components/badge.tsx"
import { Code, CopyButton, JsonView } from "../../components/code.tsx"
import { Facts } from "../../components/facts.tsx"
import { Duration, ExactTime, Time } from "../../components/time.tsx"
import { durationText } from "../../format/time.ts"
import { Table } from "../../components/table.tsx"
import { TaskArtifacts } from "./task-panel-artifacts.tsx"

const COLUMNS = ["#", "Status", "Started", { text: "Duration", className: "end" }, "Worker", "Error"]

/** `log` is shown below the error. */
export const TaskDetails = ({ task, log }: { task: Task; log: ReactNode }): ReactElement => (
  <>
    {task.progress === null ? null : <ProgressOf progress={task.progress} />}
    {task.error === null ? null : (
      <section className="stack" aria-label="Error">
        <h3>Error</h3>
        <Code text={task.error} label="Error" />
      </section>
    )}
    {task.warning == null ? null : <p className="task-warning">Warning: {task.warning}.</p>}
    {log}
    <TaskArtifacts task={task} />
    <Facts facts={factsOf(task)} />
    {task.attempts.length > 1 ? <Attempts attempts={task.attempts} /> : null}
    <Work work={task.work} />
    <Value title="Input" value={task.input} />
    <Output task={task} />
  </>
)

const factsOf = (task: Task): readonly (readonly [string, ReactNode] | null)[] => [
  // A manual retry may exceed the number of automatic attempts.
  ["Attempt", task.attempt > task.max_attempts ? task.attempt : `${task.attempt} of ${task.max_attempts}`],
  task.available_at === null || task.status !== "pending" ? null : ["Tried again", <Time key="again" at={task.available_at} />],
  task.started_at === null ? null : ["Started", <ExactTime key="started" at={task.started_at} />],
  task.started_at === null
    ? null
    : ["Duration", <Duration key="duration" from={task.started_at} to={task.finished_at ?? endless(task)} />],
  task.dispatched_at === null || task.started_at === null
    ? null
    : ["To start", durationText(Date.parse(task.started_at) - Date.parse(task.dispatched_at))],
  task.worker === null ? null : ["Worker", task.worker],
  ["Queue", task.queue],
  ["Priority", task.priority],
  task.exit_code === null ? null : ["Exit code", task.exit_code],
  task.external_id === null ? null : ["Known as", <Copied key="external" text={task.external_id} />],
  ...usageFacts(task.usage),
  ["Id", <Copied key="id" text={task.id} />],
]

/** Returns an end for the duration of a task that waits for its retry: it is not running, although it is unfinished. */
const endless = (task: Task): string | null => (task.status === "pending" ? task.started_at : null)

const Copied = ({ text }: { text: string }): ReactElement => (
  <span className="copied">
    <code>{text}</code>
    <CopyButton text={text} />
  </span>
)

const usageFacts = (usage: Task["usage"]): readonly (readonly [string, ReactNode] | null)[] => {
  if (usage === null) return []
  const cpu = (usage.cpu_user_ms ?? 0) + (usage.cpu_system_ms ?? 0)
  return [
    usage.max_rss_bytes === null ? null : ["Memory, at most", shortBytes(usage.max_rss_bytes)],
    usage.cpu_user_ms === null && usage.cpu_system_ms === null ? null : ["CPU", durationText(cpu)],
    usage.signal === null ? null : ["Signal", usage.signal],
  ]
}

const ProgressOf = ({ progress: { fraction, details } }: { progress: NonNullable<Task["progress"]> }): ReactElement => (
  <section className="stack" aria-label="Progress">
    {fraction === null ? null : (
      <label className="task-progress">
        <span className="small">{Math.round(100 * fraction)} %</span>
        <progress value={fraction} max={1} aria-label="Progress" />
      </label>
    )}
    {details === null || details === undefined ? null : typeof details === "string" ? (
      <p className="soft">{details}</p>
    ) : (
      <JsonView value={details} label="Progress" />
    )}
  </section>
)

const Attempts = ({ attempts }: { attempts: readonly Attempt[] }): ReactElement => (
  <section className="stack" aria-label="Attempts">
    <h3>Attempts</h3>
    <div className="table-frame" tabIndex={0} role="region" aria-label="Attempts, rows">
      <Table columns={COLUMNS}>
        {attempts.map((attempt) => (
          <tr key={attempt.id}>
            <td className="fit">{attempt.attempt}</td>
            <td className="fit">
              <StatusBadge status={attempt.status} />
            </td>
            <td className="fit soft">
              <Time at={attempt.started_at} />
            </td>
            <td className="fit end">
              <Duration from={attempt.started_at} to={attempt.finished_at} />
            </td>
            <td className="fit soft">{attempt.worker ?? "–"}</td>
            <td className="attempt-error">{attempt.error ?? "–"}</td>
          </tr>
        ))}
      </Table>
    </div>
  </section>
)

const Work = ({ work }: { work: Task["work"] }): ReactElement | null => {
  if (work === undefined) return null
  const { command, fields } = work
  const named = [
    ["Image", work.image],
    ["File", work.file],
    ["Function", work.function],
    ["Timeout", work.timeout_ms === null ? null : durationText(work.timeout_ms)],
    ["Deadline", work.deadline_ms === null ? null : `${durationText(work.deadline_ms)} after the start of the run`],
    ["CPU asked for", work.cpu],
    ["Artifacts", work.artifacts?.join(", ") ?? null],
    ["Memory asked for", work.memory_bytes === null ? null : shortBytes(work.memory_bytes)],
  ] as const
  return (
    <section className="stack" aria-label="What it does">
      <h3>What it does</h3>
      <Facts
        facts={[
          ["Executor", work.executor],
          ...named.map(([name, value]) => (value === null ? null : ([name, value] as const))),
        ]}
      />
      {command === null ? null : (
        <Code text={typeof command === "string" ? command : JSON.stringify(command)} label="Command" />
      )}
      {Object.keys(fields).length === 0 ? null : <JsonView value={fields} label="Fields of the executor" />}
    </section>
  )
}

const isNothing = (value: unknown): boolean =>
  value === null || value === undefined || (typeof value === "object" && Object.keys(value).length === 0)

const Value = ({ title, value }: { title: string; value: unknown }): ReactElement | null =>
  isNothing(value) ? null : (
    <section className="stack" aria-label={title}>
      <h3>{title}</h3>
      <JsonView value={value} label={title} />
    </section>
  )

const Output = ({ task }: { task: Task }): ReactElement | null => {
  const { output, output_object: kept, run_id: run, name, path } = task
  if (kept === null) return <Value title="Output" value={output} />
  const href = urlOf(`/runs/${run}/tasks/${encodeURIComponent(name)}/output`, { path })
  return (
    <section className="stack" aria-label="Output">
      <h3>Output</h3>
      <p className="soft">
        {shortBytes(kept.bytes)}, too large to be shown here.{" "}
        <a href={href} download={`${name}.json`}>
          Download it
        </a>
      </p>
    </section>
  )
}
