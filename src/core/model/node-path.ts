// The path of a compiled task in its definition.

import type { Path } from "./problems.ts"
import type { Node } from "./workflow.ts"

/** Returns `tasks.a.tasks.b` for the task `a.b` of a group, `on_failure.0` for a hook. */
export const nodePath = ({ name, hook }: Pick<Node, "name" | "hook">): Path => {
  const parts = name.split(".")
  return hook === null ? parts.flatMap((part) => ["tasks", part]) : [hook, Number(parts.at(-1))]
}
