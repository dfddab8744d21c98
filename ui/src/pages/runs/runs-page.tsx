import type { ReactElement } from "react"
import { PageHead } from "../../components/page-head.tsx"

export const RunsPage = (): ReactElement => (
  <div className="page">
    <PageHead title="Runs" />
  </div>
)
