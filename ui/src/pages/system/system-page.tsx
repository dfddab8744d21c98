import type { ReactElement } from "react"
import { PageHead } from "../../components/page-head.tsx"

export const SystemPage = (): ReactElement => (
  <div className="page">
    <PageHead title="System" />
  </div>
)
