// The parameter of lists that are limited to some workflows.

import type { Limited } from "../../core/rules/access/permissions.ts"

/** Returns the alternatives as JSON without null fields; null: all workflows. `pattern` converts to the pattern language of the store. */
export const allowedParam = ({ only }: Limited, pattern: (text: string) => string): string | null =>
  only === undefined
    ? null
    : JSON.stringify(
        only.map(({ workflows, tags }) => ({
          ...(workflows !== null && { workflows: workflows.map(pattern) }),
          ...(tags !== null && { tags }),
        })),
      )
