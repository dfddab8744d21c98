import type { ReactElement } from "react"
import { PageHead } from "../../components/page-head.tsx"

export const JobPage = (): ReactElement => (
  <div className="page">
    <PageHead title="Job" />
  </div>
)
