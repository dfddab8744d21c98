import type { ReactElement } from "react"
import type { Workflow } from "../../api/types.ts"
import { Empty } from "../../components/states.tsx"

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
      <table className="table">
        <thead>
          <tr>
            <th scope="col">Param</th>
            <th scope="col">Type</th>
            <th scope="col">Default</th>
            <th scope="col">What it is</th>
          </tr>
        </thead>
        <tbody>
          {params.map((param) => (
            <tr key={param.name}>
              <td className="mono">{param.name}</td>
              <td>
                {param.enum === null ? param.type : `one of ${param.enum.map((each) => JSON.stringify(each)).join(", ")}`}
              </td>
              <td className="mono">{param.required ? <em className="soft">required</em> : JSON.stringify(param.default)}</td>
              <td className="soft">{param.description}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
