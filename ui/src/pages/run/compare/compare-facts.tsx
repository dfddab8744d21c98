// The params of both runs, and the diff of the definitions.

import { useQuery } from "@tanstack/react-query"
import type { ReactElement } from "react"
import { versionsQuery } from "../../../api/queries.ts"
import type { Run } from "../../../api/types.ts"
import { Empty, Loaded } from "../../../components/states.tsx"
import { Diff } from "../../workflow/versions.tsx"
import type { ParamRow } from "./compare.ts"
import { Table } from "../../../components/table.tsx"

const COLUMNS = ["Param", "This run", "The other"]

const shown = (value: unknown): string => (value === undefined ? "–" : JSON.stringify(value))

export const ParamTable = ({ rows }: { rows: readonly ParamRow[] }): ReactElement => (
  <section className="card" aria-label="Params">
    <header className="card-head">
      <h2>Params</h2>
      <span className="soft small">
        {rows.length === 0
          ? "none"
          : rows.every((row) => row.same)
            ? "the same"
            : `${rows.filter((row) => !row.same).length} differ`}
      </span>
    </header>
    {rows.length === 0 ? (
      <p className="card-body soft">Neither run has params.</p>
    ) : (
      <div className="table-frame" tabIndex={0} role="region" aria-label="Params, rows">
        <Table columns={COLUMNS}>
          {rows.map(({ name, here, there, same }) => (
            <tr key={name} className={same ? "" : "compare-differs"}>
              <td>
                {name}
                {same ? null : <span className="tag compare-tag">differs</span>}
              </td>
              <td className="mono">{shown(here)}</td>
              <td className="mono">{shown(there)}</td>
            </tr>
          ))}
        </Table>
      </div>
    )}
  </section>
)

export const DefinitionDiff = ({ run, other }: { run: Run; other: Run }): ReactElement => {
  const query = useQuery({ ...versionsQuery(run.workflow), enabled: run.version !== other.version })
  if (run.version === other.version) {
    return (
      <section className="card" aria-label="Definition">
        <header className="card-head">
          <h2>Definition</h2>
        </header>
        <p className="card-body soft">Both ran version {run.version}.</p>
      </section>
    )
  }
  return (
    <Loaded query={query} what="Loading the versions">
      {(versions) => {
        const left = versions.find((each) => each.version === other.version)
        const right = versions.find((each) => each.version === run.version)
        if (left !== undefined && right !== undefined) return <Diff left={left} right={right} />
        return (
          <div className="card">
            <Empty title="A version no longer exists">
              <p>The workflow was removed, or is new under its name.</p>
            </Empty>
          </div>
        )
      }}
    </Loaded>
  )
}
