// The dialog that makes an API key, and shows it once.

import { useMutation, useQueryClient } from "@tanstack/react-query"
import { type ReactElement, type SyntheticEvent, useState } from "react"
import { calls } from "../../api/calls.ts"
import { keysQuery } from "../../api/queries.ts"
import type { CreatedKey, Scope } from "../../api/types.ts"
import { Button } from "../../components/button.tsx"
import { Code } from "../../components/code.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { Field } from "../../components/field.tsx"
import { showProblem } from "../../components/toast.tsx"
import { limitsOf } from "./key-limits.ts"

const SCOPES: readonly { scope: Scope; about: string }[] = [
  { scope: "read", about: "to look" },
  { scope: "trigger", about: "also to start, cancel and retry" },
  { scope: "author", about: "also to deploy workflows" },
  { scope: "worker", about: "what a worker does, and nothing else" },
  { scope: "admin", about: "everything" },
]

export const NewKeyDialog = ({ open, onClose }: { open: boolean; onClose: () => void }): ReactElement => {
  const [scope, setScope] = useState<Scope>("read")
  const [made, setMade] = useState<CreatedKey | null>(null)
  const close = (): void => {
    setMade(null)
    onClose()
  }
  if (made !== null) return <CreatedKeyDialog made={made} open={open} onClose={close} />
  return (
    <Dialog open={open} onClose={close} title="New key">
      <NewKeyForm scope={scope} onScope={setScope} onMade={setMade} onClose={close} />
    </Dialog>
  )
}

const CreatedKeyDialog = ({ made, open, onClose }: { made: CreatedKey; open: boolean; onClose: () => void }): ReactElement => (
  <Dialog
    open={open}
    onClose={onClose}
    title={`Key ${made.name}`}
    description="Copy it now: only its hash is stored, so it cannot be shown again."
    footer={
      <Button kind="primary" onClick={onClose}>
        Done
      </Button>
    }
  >
    <Code text={made.key} label="The key" />
  </Dialog>
)

interface NewKeyFormProps {
  scope: Scope
  onScope: (scope: Scope) => void
  onMade: (key: CreatedKey) => void
  onClose: () => void
}

const NewKeyForm = ({ scope, onScope, onMade, onClose }: NewKeyFormProps): ReactElement => {
  const [name, setName] = useState("")
  const [workflows, setWorkflows] = useState("")
  const [tags, setTags] = useState("")
  const client = useQueryClient()
  const create = useMutation({
    mutationFn: () => calls.createKey({ name: name.trim(), scopes: [scope], ...limitsOf(scope, workflows, tags) }),
    onSuccess: async (key) => {
      onMade(key)
      await client.invalidateQueries({ queryKey: keysQuery.queryKey })
    },
    onError: (error) => showProblem("Could not make the key", error),
  })
  const submit = (event: SyntheticEvent): void => {
    event.preventDefault()
    create.mutate()
  }
  return (
    <form className="stack" onSubmit={submit}>
      <TextField
        label="Name"
        hint="The person or program that uses it."
        required
        maxLength={128}
        value={name}
        onChange={setName}
      />
      <ScopeChoice scope={scope} onChange={onScope} />
      {scope === "worker" ? null : (
        <>
          <TextField
            label="Only for workflows"
            hint="Names, separated by commas; * stands for any text, as in sales-*. Empty: all."
            value={workflows}
            onChange={setWorkflows}
          />
          <TextField
            label="Only for tags"
            hint="Workflows with one of these tags, separated by commas; with names too, a workflow must match both. Empty: all."
            value={tags}
            onChange={setTags}
          />
        </>
      )}
      <footer className="dialog-foot">
        <Button onClick={onClose}>Not now</Button>
        <Button type="submit" kind="primary" busy={create.isPending} disabled={name.trim() === ""}>
          Make the key
        </Button>
      </footer>
    </form>
  )
}

const ScopeChoice = ({ scope, onChange }: { scope: Scope; onChange: (scope: Scope) => void }): ReactElement => (
  <fieldset className="scopes">
    <legend className="field-label">What it may do</legend>
    {SCOPES.map((each) => (
      <label key={each.scope} className="row">
        <input
          type="radio"
          className="check"
          name="scope"
          value={each.scope}
          checked={scope === each.scope}
          onChange={() => onChange(each.scope)}
        />
        <span className="mono">{each.scope}</span>
        <span className="soft small">{each.about}</span>
      </label>
    ))}
  </fieldset>
)

const TextField = ({
  label,
  hint,
  value,
  onChange,
  required = false,
  maxLength,
}: {
  label: string
  hint: string
  value: string
  onChange: (value: string) => void
  required?: boolean
  maxLength?: number
}): ReactElement => (
  <Field label={label} hint={hint} required={required}>
    {(names) => (
      <input
        {...names}
        className="input"
        type="text"
        maxLength={maxLength}
        required={required}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    )}
  </Field>
)
