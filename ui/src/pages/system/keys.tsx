// API keys: create, show once, remove.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { type ReactElement, type SyntheticEvent, useState } from "react"
import { calls } from "../../api/calls.ts"
import { keysQuery } from "../../api/queries.ts"
import type { CreatedKey, Key, Scope } from "../../api/types.ts"
import { Tag } from "../../components/badge.tsx"
import { Button } from "../../components/button.tsx"
import { Code } from "../../components/code.tsx"
import { ConfirmDialog, Dialog } from "../../components/dialog.tsx"
import { Field } from "../../components/field.tsx"
import { Empty, Loaded } from "../../components/states.tsx"
import { Time } from "../../components/time.tsx"
import { showMessage, showProblem } from "../../components/toast.tsx"
import { Table } from "../../components/table.tsx"

const COLUMNS = ["Name", "Scopes", "Workflows", "Made", "Last used", { hidden: "Actions" }]

const SCOPES: readonly { scope: Scope; about: string }[] = [
  { scope: "read", about: "to look" },
  { scope: "trigger", about: "also to start, cancel and retry" },
  { scope: "author", about: "also to deploy workflows" },
  { scope: "worker", about: "what a worker does, and nothing else" },
  { scope: "admin", about: "everything" },
]

export const Keys = (): ReactElement => {
  const query = useQuery(keysQuery)
  const [making, setMaking] = useState(false)
  const [leaving, setLeaving] = useState<Key | null>(null)
  const client = useQueryClient()
  const remove = useMutation({
    mutationFn: (key: Key) => calls.removeKey(key.id),
    onSuccess: async (_none, key) => {
      setLeaving(null)
      showMessage(`Key ${key.name} is removed`)
      await client.invalidateQueries({ queryKey: keysQuery.queryKey })
    },
    onError: (error) => showProblem("Could not remove the key", error),
  })
  return (
    <section className="card" aria-labelledby="keys-title">
      <header className="card-head">
        <h2 id="keys-title">Keys</h2>
        <span className="soft small">beside the server&apos;s own</span>
        <div className="page-actions">
          <Button icon="plus" onClick={() => setMaking(true)}>
            New key
          </Button>
        </div>
      </header>
      <Loaded query={query} what="Loading the keys">
        {(keys) =>
          keys.length === 0 ? (
            <Empty title="The only key is the server's own" icon="key">
              <p>Give each person and each program its own key with the fewest scopes.</p>
            </Empty>
          ) : (
            <KeyTable keys={keys} onRemove={setLeaving} />
          )
        }
      </Loaded>
      <NewKey open={making} onClose={() => setMaking(false)} />
      <ConfirmDialog
        open={leaving !== null}
        onClose={() => setLeaving(null)}
        title={`Remove key ${leaving?.name ?? ""}?`}
        description="The key and all sessions that were started with it stop working at once."
        action="Remove"
        kind="danger"
        busy={remove.isPending}
        onConfirm={() => (leaving === null ? undefined : remove.mutate(leaving))}
      />
    </section>
  )
}

const KeyTable = ({ keys, onRemove }: { keys: readonly Key[]; onRemove: (key: Key) => void }): ReactElement => (
  <div className="table-frame">
    <Table columns={COLUMNS}>
      {keys.map((key) => (
        <tr key={key.id}>
          <td>{key.name}</td>
          <td>
            <span className="row">
              {key.scopes.map((scope) => (
                <Tag key={scope}>{scope}</Tag>
              ))}
            </span>
          </td>
          <td className="soft">
            {[...(key.workflows ?? []), ...(key.tags ?? []).map((tag) => `tag ${tag}`)].join(", ") || "all"}
          </td>
          <td className="fit soft">
            <Time at={key.created_at} />
          </td>
          <td className="fit soft">
            <Time at={key.last_used_at} none="never" />
          </td>
          <td className="fit end">
            <Button kind="danger" icon="trash" aria-label={`Remove key ${key.name}`} onClick={() => onRemove(key)}>
              Remove
            </Button>
          </td>
        </tr>
      ))}
    </Table>
  </div>
)

const NewKey = ({ open, onClose }: { open: boolean; onClose: () => void }): ReactElement => {
  const [name, setName] = useState("")
  const [scope, setScope] = useState<Scope>("read")
  const [made, setMade] = useState<CreatedKey | null>(null)
  const client = useQueryClient()
  const create = useMutation({
    mutationFn: () => calls.createKey(name.trim(), [scope]),
    onSuccess: async (key) => {
      setMade(key)
      await client.invalidateQueries({ queryKey: keysQuery.queryKey })
    },
    onError: (error) => showProblem("Could not make the key", error),
  })
  const close = (): void => {
    setName("")
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
        <Field label="Name" hint="The person or program that uses it." required>
          {(names) => (
            <input
              {...names}
              className="input"
              type="text"
              maxLength={128}
              required
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
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
