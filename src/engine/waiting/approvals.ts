// What people say to a task that waits for them.

import type { Json } from "../../core/model/json.ts"

export interface Answer {
  approved: boolean
  comment: string | null
  /** Who said so; null: nobody did, and the default holds. */
  by: string | null
  at: string
}

export const approvalOutput = ({ approved, comment, by, at }: Answer): Json => ({ approved, comment, by, at })
