// Turns the body of a request into a change of a job.

import { isDeepStrictEqual } from "node:util"
import type { z } from "zod"
import type { Json } from "../../../core/values/json.ts"
import { omitUndefined } from "../../../core/values/omit-undefined.ts"
import { type jobChange, MAX_BELOW_BASE, READ_ONLY_FIELDS } from "../../../protocol/api/jobs.ts"
import type { JobEdit, JobRow } from "../../../store/contract/jobs.ts"
import { invalid, invalidField } from "../../shared/errors.ts"
import { jobShape } from "../../views/service-json.ts"

/** Returns what the body changes. Throws when it changes a read-only field. */
export const toJobEdit = (row: JobRow, body: z.output<typeof jobChange>): JobEdit => {
  const current = jobShape(row)
  const changed = READ_ONLY_FIELDS.filter(
    (field) => body[field] !== undefined && !isDeepStrictEqual(body[field], current[field]),
  )
  if (changed.length > 0) throw invalid(changed.map((field) => ({ path: field, message: "cannot be changed" })))
  return {
    ...(body.name !== undefined && { name: body.name }),
    ...(body.queue !== undefined && { queue: body.queue }),
    ...(body.payload !== undefined && { payload: body.payload as Json }),
    ...(body.priority !== undefined && { priority: body.priority }),
    ...dependencyChange(row, body.dependencies),
    ...(body.retry_policy !== undefined && { retryPolicy: mergePolicy(row, body.retry_policy) }),
  }
}

/** Returns no change for the same dependencies in any order: the store rejects a change of dependencies unless the job is PENDING. */
const dependencyChange = (row: JobRow, given: readonly string[] | undefined): Pick<JobEdit, "dependencies"> => {
  const dependencies = new Set(given ?? row.dependencies)
  return isDeepStrictEqual(dependencies, new Set(row.dependencies)) ? {} : { dependencies: [...dependencies] }
}

const mergePolicy = (
  { retryPolicy }: JobRow,
  given: NonNullable<z.output<typeof jobChange>["retry_policy"]>,
): JobRow["retryPolicy"] => {
  const merged = { ...retryPolicy, ...omitUndefined(given) }
  if (merged.max_delay_seconds < merged.base_delay_seconds) throw invalidField("retry_policy.max_delay_seconds", MAX_BELOW_BASE)
  return merged
}
