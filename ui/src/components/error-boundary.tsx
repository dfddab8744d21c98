// Replaces a page whose code failed; the rest of the UI keeps working.

import { Link, type ErrorComponentProps } from "@tanstack/react-router"
import type { ReactElement } from "react"
import { CodeMissing } from "../code.ts"
import { buttonClass } from "./button.tsx"
import { Icon } from "./icon.tsx"
import { MissingCode } from "./missing-code.tsx"
import { ProblemState } from "./states.tsx"

export const PageProblem = ({ error, reset }: ErrorComponentProps): ReactElement => (
  <div className="page">{error instanceof CodeMissing ? <MissingCode /> : <ProblemState error={error} retry={reset} />}</div>
)

/** Rendered outside the shell, because it also appears before signing in. */
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
