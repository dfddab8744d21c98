// The versions of a workflow, and the diff between any two.

import { useQuery } from "@tanstack/react-query"
import { getRouteApi } from "@tanstack/react-router"
import { type ReactElement, useMemo, useState } from "react"
import { versionsQuery } from "../../api/queries.ts"
import type { WorkflowVersion } from "../../api/types.ts"
import { Button } from "../../components/button.tsx"
import { SelectFilter } from "../../components/field.tsx"
import { Empty, Loaded } from "../../components/states.tsx"
import { absoluteTime, plural } from "../../format/time.ts"
import { countChanges, type DiffLine, diffLines, type Fold, folded, readable } from "./diff.ts"

const route = getRouteApi("/shell/workflows/$name")

export const Versions = ({ name }: { name: string }): ReactElement => {
  const query = useQuery(versionsQuery(name))
  return (
    <div className="stack">
      <Loaded query={query} what="Loading the versions">
        {(versions) => <Compared versions={versions} />}
      </Loaded>
    </div>
  )
}

const Compared = ({ versions }: { versions: readonly WorkflowVersion[] }): ReactElement => {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const find = (version: string | undefined, otherwise: number) =>
    versions.find((each) => String(each.version) === version) ?? versions[Math.min(otherwise, versions.length - 1)]!
  const right = find(search.right, 0)
  const left = find(search.left, Math.min(versions.indexOf(right) + 1, versions.length - 1))
  const choices = versions.map(({ version, created_at: at, created_by: by }) => ({
    value: String(version),
    text: `${version} · ${absoluteTime(Date.parse(at)).slice(0, 16)}${by === null ? "" : ` · ${by}`}`,
  }))
  return (
    <>
      <div className="filters">
        <SelectFilter
          label="From version"
          value={String(left.version)}
          all="the one before"
          choices={choices}
          onChange={(value) => void navigate({ search: (old) => ({ ...old, left: value }), replace: true })}
        />
        <SelectFilter
          label="To version"
          value={String(right.version)}
          all="the newest"
          choices={choices}
          onChange={(value) => void navigate({ search: (old) => ({ ...old, right: value }), replace: true })}
        />
      </div>
      <Diff left={left} right={right} />
    </>
  )
}

const SIGNS = { same: " ", added: "+", removed: "-" } as const

/** The line diff between two versions. */
export const Diff = ({ left, right }: { left: WorkflowVersion; right: WorkflowVersion }): ReactElement => {
  const lines = useMemo(() => diffLines(readable(left.definition), readable(right.definition)), [left, right])
  const { added, removed } = countChanges(lines)
  if (added + removed === 0) {
    return (
      <div className="card">
        <Empty title={left === right ? "Choose two versions to compare" : "The two versions have the same text"} icon="check" />
      </div>
    )
  }
  return (
    <section className="card" aria-label={`Changes from version ${left.version} to ${right.version}`}>
      <header className="card-head">
        <h2>
          Version {left.version} → {right.version}
        </h2>
        <span className="soft small">
          {plural(added, "line")} added, {plural(removed, "line")} removed
        </span>
      </header>
      <div className="table-frame" tabIndex={0} role="region" aria-label="Changed lines">
        <table className="diff">
          <tbody>
            {folded(lines).map((part, i) =>
              part.kind === "fold" ? <Folded key={i} fold={part} /> : <Line key={i} line={part} />,
            )}
          </tbody>
        </table>
      </div>
    </section>
  )
}

const Line = ({ line }: { line: DiffLine }): ReactElement => (
  <tr className={`diff-${line.kind}`}>
    <td className="diff-number">{line.left}</td>
    <td className="diff-number">{line.right}</td>
    <td className="diff-text">
      <span className="diff-sign">{SIGNS[line.kind]}</span>
      {line.text}
    </td>
  </tr>
)

const Folded = ({ fold }: { fold: Fold }): ReactElement => {
  const [open, setOpen] = useState(false)
  if (open) {
    return (
      <>
        {fold.lines.map((line) => (
          <Line key={line.left} line={line} />
        ))}
      </>
    )
  }
  return (
    <tr className="diff-fold">
      <td colSpan={3}>
        <Button kind="quiet" onClick={() => setOpen(true)}>
          {plural(fold.lines.length, "unchanged line")}
        </Button>
      </td>
    </tr>
  )
}
