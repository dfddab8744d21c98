// What a program keeps of the past, from the option `retention` of `Ork.open`.

import type { RetentionLimits } from "../../engine/services/housekeeping.ts"
import { checkNames, RETENTION } from "../option-names.ts"

export interface RetentionOptions {
  /** Maximum age, in days, of finished runs and jobs and of audit entries. Default: 0, without limit. */
  days?: number
  /** Maximum number of finished runs of each workflow. Default: 0, without limit. */
  runs?: number
}

export const retentionLimitsOf = (options: RetentionOptions = {}): RetentionLimits => {
  checkNames(options, RETENTION, "retention")
  const { days = 0, runs = 0 } = options
  for (const [name, value] of Object.entries({ days, runs })) {
    if (Number.isInteger(value) && value >= 0) continue
    throw new TypeError(`retention.${name} is ${String(value)}, but must be a whole number; 0 is without limit`)
  }
  return { retentionDays: days, retentionRuns: runs }
}
