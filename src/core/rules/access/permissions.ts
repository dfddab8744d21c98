// Decides whether limits of a key or role cover a workflow. The stores evaluate the same rule in their lists; a conformance test
// compares both.

import type { WorkflowLimits } from "../../settings/workflow-limits.ts"
import { matches } from "../../values/name-patterns.ts"

/** Part of a query: alternatives, of which a workflow must match one; not given: all workflows. */
export interface Limited {
  only?: readonly WorkflowLimits[]
}

export interface LimitedWorkflow {
  name: string
  tags: readonly string[]
}

export const covers = ({ workflows, tags }: WorkflowLimits, workflow: LimitedWorkflow): boolean =>
  (workflows === null || matches(workflows, workflow.name)) &&
  (tags === null || tags.some((tag) => workflow.tags.includes(tag)))
