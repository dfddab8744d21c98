import type { ReactElement } from "react"
import { PageHead } from "../../components/page-head.tsx"

export const TriggerPage = (): ReactElement => (
  <div className="page">
    <PageHead title="Run" />
  </div>
)
