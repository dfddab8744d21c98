// The table of API keys.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { type ReactElement, useState } from "react"
import { calls } from "../../api/calls.ts"
import { keysQuery } from "../../api/queries.ts"
import type { Key } from "../../api/types.ts"
import { Tag } from "../../components/badge.tsx"
import { Button } from "../../components/button.tsx"
import { ConfirmDialog } from "../../components/dialog.tsx"
import { Empty, Loaded } from "../../components/states.tsx"
import { Time } from "../../components/time.tsx"
import { showMessage, showProblem } from "../../components/toast.tsx"
import { Table } from "../../components/table.tsx"
import { NewKeyDialog } from "./new-key.tsx"

const COLUMNS = ["Name", "Scopes", "Workflows", "Made", "Last used", { hidden: "Actions" }]

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
      <NewKeyDialog open={making} onClose={() => setMaking(false)} />
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
        <tr key={key.id} className="stacked">
          <td>{key.name}</td>
          <td>
            <span className="row">
              {key.scopes.map((scope) => (
                <Tag key={scope}>{scope}</Tag>
              ))}
            </span>
          </td>
          <td className="soft" data-label="Workflows">
            {[...(key.workflows ?? []), ...(key.tags ?? []).map((tag) => `tag ${tag}`)].join(", ") || "all"}
          </td>
          <td className="fit soft" data-label="Made">
            <Time at={key.created_at} />
          </td>
          <td className="fit soft" data-label="Last used">
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
