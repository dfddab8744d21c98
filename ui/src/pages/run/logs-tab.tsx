import type { ReactElement } from "react"
import { Empty } from "../../components/states.tsx"

export const LogsTab = (): ReactElement => <Empty title="Choose a task" />
