import type { ReactElement } from "react"
import { PageHead } from "../../components/page-head.tsx"

export const NewJobPage = (): ReactElement => (
  <div className="page">
    <PageHead title="Submit" />
  </div>
)
