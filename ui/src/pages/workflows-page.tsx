import type { ReactElement } from "react"
import { PageHead } from "../components/page-head.tsx"

export const WorkflowsPage = (): ReactElement => (
  <div className="page">
    <PageHead title="Workflows" />
  </div>
)
