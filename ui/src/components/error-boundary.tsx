// What stands in place of a page whose code failed: the rest of the page goes on working.

import { Link, type ErrorComponentProps } from "@tanstack/react-router"
import type { ReactElement } from "react"
import { buttonClass } from "./button.tsx"
import { Icon } from "./icon.tsx"
import { ProblemState } from "./states.tsx"

export const PageProblem = ({ error, reset }: ErrorComponentProps): ReactElement => (
  <div className="page">
    <ProblemState error={error} retry={reset} />
  </div>
)

/** Outside of the shell: nobody need be signed in to be told. */
export const NotFound = (): ReactElement => (
  <main className="alone">
    <div className="empty">
      <Icon name="question" className="empty-icon" />
      <h1>There is no such page</h1>
      <p>The address may be mistyped, or it belongs to another version.</p>
      <Link to="/" className={buttonClass()}>
        Go to the workflows
      </Link>
    </div>
  </main>
)
