import type { ReactElement } from "react"
import { PageHead } from "../components/page-head.tsx"

export const WorkersPage = (): ReactElement => (
  <div className="page">
    <PageHead title="Workers" />
  </div>
)
