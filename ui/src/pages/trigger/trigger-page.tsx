// Starts a run: a form for the workflow's params, and the same as JSON. `?from=RUN` starts with the params of that run.

import { useMutation, useQuery } from "@tanstack/react-query"
import { getRouteApi, useNavigate } from "@tanstack/react-router"
import { type ReactElement, type ReactNode, type SyntheticEvent, useState } from "react"
import { calls } from "../../api/calls.ts"
import { ApiProblem } from "../../api/http.ts"
import { runQuery, workflowQuery } from "../../api/queries.ts"
import type { JsonObject, Workflow } from "../../api/types.ts"
import { Button } from "../../components/button.tsx"
import { Field } from "../../components/field.tsx"
import { PageHead } from "../../components/page-head.tsx"
import { shortId } from "../../components/run-table.tsx"
import { Empty, Loaded, ProblemState } from "../../components/states.tsx"
import { showMessage, showProblem } from "../../components/toast.tsx"
import { useMayFor } from "../../session/session.ts"
import { PRIORITIES } from "../search.ts"
import { defaultsOf, readEditor, readForm, textsOf } from "./form.ts"
import { ParamControl } from "./param-control.tsx"

const route = getRouteApi("/shell/workflows/$name/run")

export const TriggerPage = (): ReactElement => {
  const { name } = route.useParams()
  const { from } = route.useSearch()
  const may = useMayFor(name, "trigger")
  const workflow = useQuery(workflowQuery(name))
  const earlier = useQuery({ ...runQuery(from ?? ""), enabled: from !== undefined })
  return (
    <div className="page">
      <PageHead title={`Run ${name}`} up={{ to: `/workflows/${name}`, text: name }}>
        {from === undefined ? null : <p className="soft">With the params of run {shortId(from)}.</p>}
      </PageHead>
      {may ? (
        <Loaded query={workflow} what="Loading the workflow">
          {(found) => {
            if (from !== undefined && earlier.isError) return <ProblemState error={earlier.error} />
            if (from !== undefined && earlier.data === undefined) return null
            const known = new Set(found.params.map((param) => param.name))
            const given = Object.entries((earlier.data?.params ?? {}) as JsonObject).filter(([param]) => known.has(param))
            const start = { ...defaultsOf(found.params), ...Object.fromEntries(given) }
            return <TriggerForm key={from ?? ""} workflow={found} start={start} />
          }}
        </Loaded>
      ) : (
        <Empty title="This key is read-only" icon="key">
          <p>Sign in with a key that has the scope trigger to start runs.</p>
        </Empty>
      )}
    </div>
  )
}

/** The params as texts of the form and as JSON: a change of one changes the other. */
const useParamTexts = (params: Workflow["params"], start: JsonObject) => {
  const [texts, setTexts] = useState(() => textsOf(params, start))
  const [editor, setEditorText] = useState(() => JSON.stringify(start, null, 2))
  const setText = (param: string, text: string): void => {
    const next = { ...texts, [param]: text }
    setTexts(next)
    setEditorText(JSON.stringify(readForm(params, next).params, null, 2))
  }
  const setEditor = (text: string): void => {
    setEditorText(text)
    const read = readEditor(params, text)
    if ("params" in read) setTexts(textsOf(params, read.params))
  }
  return { texts, editor, setText, setEditor }
}

const TriggerForm = ({ workflow: { name, params }, start }: { workflow: Workflow; start: JsonObject }): ReactElement => {
  const navigate = useNavigate()
  const { texts, editor, setText, setEditor } = useParamTexts(params, start)
  const [options, setOptions] = useState<RunOptions>({ priority: "", logicalDate: "" })
  const [tried, setTried] = useState(false)
  const form = readForm(params, texts)
  const edited = readEditor(params, editor)

  const trigger = useMutation({
    mutationFn: () =>
      calls.trigger(name, {
        params: form.params,
        ...(options.priority !== "" && { priority: Number(options.priority) }),
        ...(options.logicalDate !== "" && { logical_date: options.logicalDate }),
      }),
    onSuccess: async (run) => {
      showMessage(`Started a run of ${name}`)
      await navigate({ to: "/runs/$runId", params: { runId: run.id } })
    },
    onError: (error) => showProblem(`Could not start ${name}`, error),
  })
  const refused = new Map(
    trigger.error instanceof ApiProblem
      ? trigger.error.details.map((each) => [each.path.replace(/^params\./, ""), each.message])
      : [],
  )

  const changeText = (param: string, text: string): void => {
    setText(param, text)
    trigger.reset()
  }
  const submit = (event: SyntheticEvent): void => {
    event.preventDefault()
    setTried(true)
    if (Object.keys(form.problems).length === 0 && "params" in edited) trigger.mutate()
  }
  const problemOf = (param: string): string | null => {
    const problem = form.problems[param]
    const show = problem !== undefined && (tried || problem !== "is required")
    return show ? problem : (refused.get(param) ?? null)
  }

  return (
    <form className="stack" noValidate onSubmit={submit}>
      <div className="columns">
        <ParamFields params={params} texts={texts} problemOf={problemOf} onChange={changeText}>
          <MoreOptions options={options} onChange={setOptions} />
        </ParamFields>
        <ParamsEditor
          text={editor}
          problem={"problem" in edited ? edited.problem : null}
          onChange={(text) => {
            setEditor(text)
            trigger.reset()
          }}
        />
      </div>
      <div className="row">
        <Button type="submit" kind="primary" icon="play" busy={trigger.isPending}>
          Run
        </Button>
        {tried && (Object.keys(form.problems).length > 0 || "problem" in edited) ? (
          <span className="field-problem" role="alert">
            Something is wrong with the params above.
          </span>
        ) : null}
      </div>
    </form>
  )
}

const ParamFields = ({
  params,
  texts,
  problemOf,
  onChange,
  children,
}: {
  params: Workflow["params"]
  texts: Readonly<Record<string, string>>
  problemOf: (param: string) => string | null
  onChange: (param: string, text: string) => void
  children: ReactNode
}): ReactElement => (
  <section className="card" aria-labelledby="params-title">
    <header className="card-head">
      <h2 id="params-title">Params</h2>
    </header>
    <div className="card-body stack">
      {params.length === 0 ? <p className="soft">This workflow takes no params.</p> : null}
      {params.map((param) => (
        <ParamControl
          key={param.name}
          param={param}
          text={texts[param.name] ?? ""}
          problem={problemOf(param.name)}
          onChange={(text) => onChange(param.name, text)}
        />
      ))}
      {children}
    </div>
  </section>
)

/** Texts of the inputs; empty: the default. */
interface RunOptions {
  priority: string
  logicalDate: string
}

const MoreOptions = ({ options, onChange }: { options: RunOptions; onChange: (options: RunOptions) => void }): ReactElement => (
  <details>
    <summary>More options</summary>
    <div className="stack more-options">
      <Field label="Priority" hint="10 goes first. Without one, the workflow's own.">
        {(names) => (
          <select
            {...names}
            className="input"
            value={options.priority}
            onChange={(event) => onChange({ ...options, priority: event.target.value })}
          >
            <option value="">Workflow default</option>
            {PRIORITIES.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        )}
      </Field>
      <Field label="Logical date" hint="The day or instant that the run processes: run.logical_date.">
        {(names) => (
          <input
            {...names}
            className="input"
            type="date"
            value={options.logicalDate}
            onChange={(event) => onChange({ ...options, logicalDate: event.target.value })}
          />
        )}
      </Field>
    </div>
  </details>
)

const ParamsEditor = ({
  text,
  problem,
  onChange,
}: {
  text: string
  problem: string | null
  onChange: (text: string) => void
}): ReactElement => (
  <section className="card" aria-labelledby="json-title">
    <header className="card-head">
      <h2 id="json-title">As JSON</h2>
      <span className="soft small">changes with the form, and the form with it</span>
    </header>
    <div className="card-body">
      <Field label="Params as JSON" hideLabel problem={problem}>
        {(names) => (
          <textarea
            {...names}
            className="input"
            rows={Math.max(8, text.split("\n").length + 1)}
            spellCheck={false}
            value={text}
            onChange={(event) => onChange(event.target.value)}
          />
        )}
      </Field>
    </div>
  </section>
)
