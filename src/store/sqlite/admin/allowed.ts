// Selects the workflows that a limited caller may see.

import type { Limited } from "../../../core/rules/access/permissions.ts"
import { allowedParam } from "../../shared/allowed.ts"

/** Returns the condition of a workflow `w`. The parameter is the result of `allowedText`. */
export const allowed = (param: string): string => `(${param} IS NULL OR EXISTS (SELECT 1 FROM json_each(${param}) AS l
  WHERE (l.value -> '$.workflows' IS NULL
      OR EXISTS (SELECT 1 FROM json_each(l.value, '$.workflows') AS p WHERE w.name GLOB p.value))
    AND (l.value -> '$.tags' IS NULL
      OR EXISTS (SELECT 1 FROM json_each(l.value, '$.tags') AS t JOIN json_each(w.tags) AS own ON own.value = t.value))))`

/** Patterns need no conversion: GLOB knows `*`, and its other special characters are not allowed in them. */
export const allowedText = (query: Limited): string | null => allowedParam(query, (pattern) => pattern)
