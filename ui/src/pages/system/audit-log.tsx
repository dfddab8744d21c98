import { useInfiniteQuery, useQuery } from "@tanstack/react-query"
import type { ReactElement } from "react"
import { auditQuery, keysQuery } from "../../api/queries.ts"
import type { AuditEntry } from "../../api/types.ts"
import { Listed } from "../../components/listed.tsx"
import { Empty } from "../../components/states.tsx"
import { Time } from "../../components/time.tsx"

/** Every change, by which key, newest first. */
export const AuditLog = (): ReactElement => {
  const query = useInfiniteQuery(auditQuery)
  const { data: keys = [] } = useQuery(keysQuery)
  const names = new Map(keys.map((key) => [key.id, key.name]))
  const who = ({ key_id: id }: AuditEntry): string =>
    id === null ? "server's own key" : (names.get(id) ?? `removed key ${id.slice(-8)}`)
  return (
    <Listed query={query} noun="change" empty={<Empty title="Nothing was changed yet" icon="info" />}>
      {(entries) => (
        <table className="table">
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">Key</th>
              <th scope="col">Action</th>
              <th scope="col">What</th>
              <th scope="col">Details</th>
            </tr>
          </thead>
          <tbody>
            {entries.map((entry) => (
              <tr key={entry.id}>
                <td className="fit soft">
                  <Time at={entry.at} />
                </td>
                <td className="fit">{who(entry)}</td>
                <td className="fit mono">{entry.action}</td>
                <td className="mono">{entry.target}</td>
                <td className="soft small">{entry.details}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Listed>
  )
}
