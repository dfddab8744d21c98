// Selects the sentence of `ork explain` for what is shown. Pure.

import type { Explanation } from "../../api/types.ts"

/** Returns the explanation. The whole task (path ``) is explained by an instance with its status; an instance only by its own sentence. */
export const explanationOf = (
  items: readonly Explanation[],
  { task, path, status }: { task: string; path: string; status: string | undefined },
): Explanation | undefined => {
  const own = items.filter((each) => each.task === task)
  return own.find((each) => each.path === path) ?? (path === "" ? own.find((each) => each.status === status) : undefined)
}
