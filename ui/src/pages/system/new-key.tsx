// The dialog that makes an API key, and shows it once.

import { useMutation, useQueryClient } from "@tanstack/react-query"
import { type ReactElement, type SyntheticEvent, useState } from "react"
import { calls } from "../../api/calls.ts"
import { keysQuery } from "../../api/queries.ts"
import type { CreatedKey, NewKey, Scope } from "../../api/types.ts"
import { Button } from "../../components/button.tsx"
import { Code } from "../../components/code.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { Field } from "../../components/field.tsx"
import { showProblem } from "../../components/toast.tsx"

const SCOPES: readonly { scope: Scope; about: string }[] = [
  { scope: "read", about: "to look" },
  { scope: "trigger", about: "also to start, cancel and retry" },
  { scope: "author", about: "also to deploy workflows" },
  { scope: "worker", about: "what a worker does, and nothing else" },
  { scope: "admin", about: "everything" },
]

/** Returns the workflows that a key is limited to; a worker has none. */
const limitsOf = (scope: Scope, workflows: string, tags: string): Pick<NewKey, "workflows" | "tags"> => {
  const [names, labels] = scope === "worker" ? [[], []] : [listOf(workflows), listOf(tags)]
  return { ...(names.length > 0 && { workflows: names }), ...(labels.length > 0 && { tags: labels }) }
}

const listOf = (text: string): string[] =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "")

export const NewKeyDialog = ({ open, onClose }: { open: boolean; onClose: () => void }): ReactElement => {
  const [name, setName] = useState("")
  const [scope, setScope] = useState<Scope>("read")
  const [workflows, setWorkflows] = useState("")
  const [tags, setTags] = useState("")
  const [made, setMade] = useState<CreatedKey | null>(null)
  const client = useQueryClient()
  const create = useMutation({
    mutationFn: () => calls.createKey({ name: name.trim(), scopes: [scope], ...limitsOf(scope, workflows, tags) }),
    onSuccess: async (key) => {
      setMade(key)
      await client.invalidateQueries({ queryKey: keysQuery.queryKey })
    },
    onError: (error) => showProblem("Could not make the key", error),
  })
  const close = (): void => {
    setName("")
    setWorkflows("")
    setTags("")
    setMade(null)
    onClose()
  }
  const submit = (event: SyntheticEvent): void => {
    event.preventDefault()
    create.mutate()
  }
  if (made !== null) {
    return (
      <Dialog
        open={open}
        onClose={close}
        title={`Key ${made.name}`}
        description="Copy it now: only its hash is stored, so it cannot be shown again."
        footer={
          <Button kind="primary" onClick={close}>
            Done
          </Button>
        }
      >
        <Code text={made.key} label="The key" />
      </Dialog>
    )
  }
  return (
    <Dialog open={open} onClose={close} title="New key">
      <form className="stack" onSubmit={submit}>
        <TextField
          label="Name"
          hint="The person or program that uses it."
          required
          maxLength={128}
          value={name}
          onChange={setName}
        />
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
                onChange={() => setScope(each.scope)}
              />
              <span className="mono">{each.scope}</span>
              <span className="soft small">{each.about}</span>
            </label>
          ))}
        </fieldset>
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
          <Button onClick={close}>Not now</Button>
          <Button type="submit" kind="primary" busy={create.isPending} disabled={name.trim() === ""}>
            Make the key
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}

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
