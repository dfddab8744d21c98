// The steps of a durable function: a line for each, with its place in time; a line opens to its input and output.

import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { type ReactElement, type ReactNode, useState } from "react"
import { jobQuery, runQuery } from "../api/queries.ts"
import { shortBytes } from "../../../src/core/values/quantities.ts"
import type { Step } from "../api/types.ts"
import { StatusBadge } from "../components/badge.tsx"
import { Code, JsonView } from "../components/code.tsx"
import { Facts } from "../components/facts.tsx"
import { lookOf } from "../components/status.ts"
import { ExactTime } from "../components/time.tsx"
import type { StepLine } from "./model.ts"
import "../styles/steps.css"

export interface StepsViewProps {
  lines: readonly StepLine[]
  /** Returns the buttons of an opened step. */
  actions: (step: Step) => ReactNode
}

export const StepsView = ({ lines, actions }: StepsViewProps): ReactElement => (
  <ol className="steps">
    {lines.map((line) => (
      <li key={line.key}>
        <StepItem line={line} actions={actions} />
      </li>
    ))}
  </ol>
)

const StepItem = ({ line, actions }: { line: StepLine; actions: StepsViewProps["actions"] }): ReactElement => {
  const [open, setOpen] = useState(false)
  return (
    <details className="step" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span className="step-name">
          <span className="mono clip" title={line.title}>
            {line.title}
          </span>
          <span className="faint small">{line.what}</span>
        </span>
        <StatusBadge status={line.status} />
        <span className="step-numbers soft small number">
          <span>{line.duration}</span>
          {line.attempts === null ? null : <span>{line.attempts}</span>}
        </span>
        <span className="step-lane" aria-hidden="true">
          <Bar line={line} />
        </span>
        {line.waitsFor === null ? null : <span className="step-waits">{line.waitsFor}</span>}
      </summary>
      {open ? <Details step={line.step}>{actions(line.step)}</Details> : null}
    </details>
  )
}

const percent = (part: number): string => `${(100 * part).toFixed(4)}%`

const Bar = ({ line: { status, place, length } }: { line: StepLine }): ReactElement => (
  <span
    className={`step-bar step-${status} tone-${lookOf(status).tone}`}
    style={{ left: `min(${percent(place)}, 100% - 3px)`, width: percent(length) }}
  />
)

const Details = ({ step, children }: { step: Step; children: ReactNode }): ReactElement => (
  <div className="step-details">
    <Facts
      facts={[
        ["Started", <ExactTime key="start" at={step.started_at} />],
        step.finished_at === null ? null : ["Finished", <ExactTime key="end" at={step.finished_at} />],
        step.until === null
          ? null
          : [step.state === "waiting" ? "Continues" : "Due", <ExactTime key="until" at={step.until} />],
        step.child === null ? null : ["Has started", <ChildLink key="child" step={step} />],
      ]}
    />
    {step.error === null ? null : (
      <Named title={step.state === "failed" ? "Error" : "Error of the last failed attempt"}>
        <Code text={step.error} label={`Error of ${step.name}`} />
      </Named>
    )}
    {step.child === null ? null : step.child_kind === "run" ? (
      <RunInput id={step.child} name={step.name} />
    ) : (
      <JobInput id={step.child} name={step.name} />
    )}
    <StepOutput step={step} />
    {children}
  </div>
)

const ChildLink = ({ step: { child, child_kind: kind } }: { step: Step }): ReactElement =>
  kind === "run" ? (
    <Link to="/runs/$runId" params={{ runId: child! }}>
      the run {child!.slice(-8)}
    </Link>
  ) : (
    <Link to="/jobs/$jobId" params={{ jobId: child! }}>
      the job {child!.slice(-8)}
    </Link>
  )

const Named = ({ title, children }: { title: string; children: ReactElement }): ReactElement => (
  <div className="stack">
    <p className="step-label">{title}</p>
    {children}
  </div>
)

const RunInput = ({ id, name }: { id: string; name: string }): ReactElement | null => {
  const { data } = useQuery(runQuery(id))
  return data === undefined ? null : <Input name={name} value={data.params} />
}

const JobInput = ({ id, name }: { id: string; name: string }): ReactElement | null => {
  const { data } = useQuery(jobQuery(id))
  return data === undefined ? null : <Input name={name} value={data.payload} />
}

const Input = ({ name, value }: { name: string; value: unknown }): ReactElement => (
  <Named title="Input">
    <JsonView value={value} label={`Input of ${name}`} />
  </Named>
)

const StepOutput = ({ step }: { step: Step }): ReactElement | null => {
  const { name, state, kind, output, output_object: stored } = step
  if (stored !== null) return <p className="soft">Its output of {shortBytes(stored.bytes)} is in the object store.</p>
  if (state !== "success" || kind === "sleep") return null
  return (
    <Named title={kind === "wait" ? "Payload" : "Output"}>
      <JsonView value={output} label={`Output of ${name}`} />
    </Named>
  )
}
