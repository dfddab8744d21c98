// The limits of a new API key, from the texts of its form. Pure.

import type { NewKey, Scope } from "../../api/types.ts"

/** Returns the workflows that a key is limited to; a worker has none. */
export const limitsOf = (scope: Scope, workflows: string, tags: string): Pick<NewKey, "workflows" | "tags"> => {
  const [names, labels] = scope === "worker" ? [[], []] : [listOf(workflows), listOf(tags)]
  return { ...(names.length > 0 && { workflows: names }), ...(labels.length > 0 && { tags: labels }) }
}

const listOf = (text: string): string[] =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "")
