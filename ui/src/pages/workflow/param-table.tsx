import type { ReactElement } from "react"
import type { Workflow } from "../../api/types.ts"
import { Empty } from "../../components/states.tsx"
import { Table } from "../../components/table.tsx"

const COLUMNS = ["Param", "Type", "Default", "What it is"]

export const ParamTable = ({ params }: { params: Workflow["params"] }): ReactElement => {
  if (params.length === 0) {
    return (
      <div className="card">
        <Empty title="This workflow takes no params" />
      </div>
    )
  }
  return (
    <div className="card table-frame">
      <Table columns={COLUMNS}>
        {params.map((param) => (
          <tr key={param.name}>
            <td className="mono">{param.name}</td>
            <td>{param.enum === null ? param.type : `one of ${param.enum.map((each) => JSON.stringify(each)).join(", ")}`}</td>
            <td className="mono">{param.required ? <em className="soft">required</em> : JSON.stringify(param.default)}</td>
            <td className="soft">{param.description}</td>
          </tr>
        ))}
      </Table>
    </div>
  )
}
