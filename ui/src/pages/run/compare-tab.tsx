import type { ReactElement } from "react"
import { Empty } from "../../components/states.tsx"

export const CompareTab = (): ReactElement => <Empty title="Choose a task" />
