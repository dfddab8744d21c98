import { useInfiniteQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import type { ReactElement } from "react"
import { auditQuery } from "../../api/queries.ts"
import type { AuditEntry } from "../../api/types.ts"
import { Listed } from "../../components/listed.tsx"
import { Empty } from "../../components/states.tsx"
import { Time } from "../../components/time.tsx"
import { shortId } from "../../components/run-table.tsx"
import { Table } from "../../components/table.tsx"

const COLUMNS = ["When", "Who", "Address", "Result", "Action", "What", "Details"]

/** The audit log, newest first. */
export const AuditLog = (): ReactElement => {
  const query = useInfiniteQuery(auditQuery)
  return (
    <Listed query={query} noun="change" empty={<Empty title="No changes yet" icon="info" />}>
      {(entries) => (
        <Table columns={COLUMNS}>
          {entries.map((entry) => (
            <tr key={entry.id} className="stacked">
              <td className="fit soft">
                <Time at={entry.at} />
              </td>
              <td className="fit">{entry.actor}</td>
              <td className="fit mono">{entry.address}</td>
              <td className="fit">{entry.result === "ok" ? "" : entry.result}</td>
              <td className="fit mono">{entry.action}</td>
              <td className="mono">
                <Target action={entry.action} target={entry.target} />
              </td>
              <td className="soft small breaks">{entry.details}</td>
            </tr>
          ))}
        </Table>
      )}
    </Listed>
  )
}

/** The changed object, as a link if it has a page. */
const Target = ({ action, target }: Pick<AuditEntry, "action" | "target">): ReactElement => {
  const [kind] = action.split(".")
  const [id = target] = target.split("/")
  if (kind === "run" || kind === "task") {
    return (
      <Link to="/runs/$runId" params={{ runId: id }} className="nowrap" title={target}>
        {shortTarget(target)}
      </Link>
    )
  }
  if (kind === "job") {
    return (
      <Link to="/jobs/$jobId" params={{ jobId: id }} className="nowrap" title={target}>
        {shortTarget(target)}
      </Link>
    )
  }
  if (kind === "workflow") {
    return (
      <Link to="/workflows/$name" params={{ name: id }} className="nowrap" title={target}>
        {shortTarget(target)}
      </Link>
    )
  }
  return (
    <span className="nowrap" title={target}>
      {shortTarget(target)}
    </span>
  )
}

const UUID = /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g

/** Shortens ids, as everywhere. */
const shortTarget = (target: string): string => target.replaceAll(UUID, (id) => shortId(id))
