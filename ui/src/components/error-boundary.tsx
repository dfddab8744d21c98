// What stands in place of a page whose code failed: the rest of the page goes on working.

import { Link, type ErrorComponentProps } from "@tanstack/react-router"
import type { ReactElement } from "react"
import { buttonClass } from "./button.tsx"
import { Empty, ProblemState } from "./states.tsx"

export const PageProblem = ({ error, reset }: ErrorComponentProps): ReactElement => (
  <div className="page">
    <ProblemState error={error} retry={reset} />
  </div>
)

export const NotFound = (): ReactElement => (
  <div className="page">
    <Empty title="There is no such page" icon="question">
      <p>The address may be mistyped, or it belongs to another version.</p>
      <Link to="/" className={buttonClass()}>
        Go to the workflows
      </Link>
    </Empty>
  </div>
)
