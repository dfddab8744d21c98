import type { ReactElement } from "react"
import { PageHead } from "../../components/page-head.tsx"

export const JobsPage = (): ReactElement => (
  <div className="page">
    <PageHead title="Jobs" />
  </div>
)
