import type { ReactElement } from "react"
import { PageHead } from "../../components/page-head.tsx"

export const SchedulesPage = (): ReactElement => (
  <div className="page">
    <PageHead title="Schedules" />
  </div>
)
