// The form that submits a job.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { useNavigate } from "@tanstack/react-router"
import { type ReactElement, type SyntheticEvent, useId, useState } from "react"
import { calls } from "../../api/calls.ts"
import { queuesQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { Field } from "../../components/field.tsx"
import { PageHead } from "../../components/page-head.tsx"
import { Empty } from "../../components/states.tsx"
import { showMessage, showProblem } from "../../components/toast.tsx"
import { useMay } from "../../session/session.ts"
import { PRIORITIES } from "../search.ts"
import { type JobTexts, NO_TEXTS, readJob } from "./job-form.ts"

const BACKOFFS = [
  { value: "EXPONENTIAL", text: "twice as long each time" },
  { value: "LINEAR", text: "longer by the same each time" },
  { value: "FIXED", text: "always the same" },
]

export const NewJobPage = (): ReactElement => {
  const may = useMay("trigger")
  return (
    <div className="page">
      <PageHead title="Submit a job" up={{ to: "/jobs", text: "Jobs" }} />
      {may ? (
        <JobForm />
      ) : (
        <Empty title="This key is read-only" icon="key">
          <p>Sign in with a key that has the scope trigger to submit jobs.</p>
        </Empty>
      )}
    </div>
  )
}

interface JobFields {
  /** Returns the properties of the input of a field. */
  input: (field: keyof JobTexts) => {
    className: string
    name: string
    value: string
    onChange: (event: { target: { value: string } }) => void
  }
  problemOf: (field: keyof JobTexts) => string | null
}

const JobForm = (): ReactElement => {
  const [texts, setTexts] = useState<JobTexts>(NO_TEXTS)
  const [tried, setTried] = useState(false)
  const mayCommand = useMay("author")
  const navigate = useNavigate()
  const client = useQueryClient()
  const { job, problems } = readJob(texts)
  const submit = useMutation({
    mutationFn: () => calls.submitJob(job),
    onSuccess: async (made) => {
      showMessage(`${made.name} is submitted`)
      await client.invalidateQueries({ queryKey: ["jobs"] })
      await navigate({ to: "/jobs/$jobId", params: { jobId: made.id } })
    },
    onError: (error) => showProblem("Could not submit the job", error),
  })
  const input = (field: keyof JobTexts) => ({
    className: "input",
    name: field,
    value: texts[field],
    onChange: (event: { target: { value: string } }) => setTexts((old) => ({ ...old, [field]: event.target.value })),
  })
  const problemOf = (field: keyof JobTexts): string | null => (tried ? (problems[field] ?? null) : null)
  const fields: JobFields = { input, problemOf }
  const send = (event: SyntheticEvent): void => {
    event.preventDefault()
    setTried(true)
    if (Object.keys(problems).length === 0) submit.mutate()
  }
  return (
    <form className="card card-body stack job-form" noValidate onSubmit={send}>
      <Field label="Name" required problem={problemOf("name")}>
        {(names) => <input {...names} {...input("name")} type="text" />}
      </Field>
      <QueueFields fields={fields} />
      <Field label="Payload" hint="JSON. The input of the job." problem={problemOf("payload")}>
        {(names) => <textarea {...names} {...input("payload")} rows={5} spellCheck={false} />}
      </Field>
      {mayCommand ? (
        <Field label="Command" hint="A shell command. Without one, a handler of the queue runs the job.">
          {(names) => <textarea {...names} {...input("command")} rows={2} spellCheck={false} />}
        </Field>
      ) : null}
      <Field label="Depends on" hint="Ids of jobs that must complete first, one per line." problem={problemOf("dependencies")}>
        {(names) => <textarea {...names} {...input("dependencies")} rows={2} spellCheck={false} />}
      </Field>
      <RetryFields fields={fields} />
      <div className="row">
        <Button type="submit" kind="primary" icon="plus" busy={submit.isPending}>
          Submit
        </Button>
      </div>
    </form>
  )
}

const QueueFields = ({ fields: { input, problemOf } }: { fields: JobFields }): ReactElement => {
  const queues = useQuery(queuesQuery)
  const list = useId()
  return (
    <div className="columns">
      <Field label="Queue" required problem={problemOf("queue")}>
        {(names) => (
          <>
            <input {...names} {...input("queue")} type="text" list={list} autoComplete="off" />
            <datalist id={list}>
              {queues.data?.map(({ name }) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </datalist>
          </>
        )}
      </Field>
      <Field label="Priority" hint="10 goes first.">
        {(names) => (
          <select {...names} {...input("priority")}>
            {PRIORITIES.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        )}
      </Field>
    </div>
  )
}

const RetryFields = ({ fields: { input, problemOf } }: { fields: JobFields }): ReactElement => (
  <div className="columns">
    <Field label="Attempts" problem={problemOf("attempts")}>
      {(names) => <input {...names} {...input("attempts")} type="number" min={1} max={10} />}
    </Field>
    <Field label="Delays between attempts">
      {(names) => (
        <select {...names} {...input("backoff")}>
          {BACKOFFS.map(({ value, text }) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  </div>
)
