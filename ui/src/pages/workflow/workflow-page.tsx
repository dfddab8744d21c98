import type { ReactElement } from "react"
import { PageHead } from "../../components/page-head.tsx"

export const WorkflowPage = (): ReactElement => (
  <div className="page">
    <PageHead title="Workflow" />
  </div>
)
