// Selects the workflows that a limited caller may see.

import type { Limited } from "../../../core/rules/access/permissions.ts"
import { allowedParam } from "../../shared/allowed.ts"

/** Condition of a workflow `w`. `:only` is the result of `allowedText`. */
export const ALLOWED = `(:only::jsonb IS NULL OR EXISTS (SELECT 1 FROM jsonb_array_elements(:only::jsonb) AS l
  WHERE (l -> 'workflows' IS NULL OR w.name LIKE ANY (ARRAY(SELECT jsonb_array_elements_text(l -> 'workflows'))))
    AND (l -> 'tags' IS NULL OR w.tags::jsonb ?| ARRAY(SELECT jsonb_array_elements_text(l -> 'tags')))))`

export const allowedText = (query: Limited): string | null => allowedParam(query, likePattern)

const likePattern = (pattern: string): string => pattern.replaceAll(/[\\%_]/g, "\\$&").replaceAll("*", "%")
