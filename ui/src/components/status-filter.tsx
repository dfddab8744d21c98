// The filter of a list by status, with the words of the badges.

import type { ReactElement } from "react"
import { SelectFilter } from "./field.tsx"
import { type AnyStatus, lookOf } from "./status.ts"

export const StatusFilter = ({
  value,
  statuses,
  onChange,
}: {
  value: string | undefined
  statuses: readonly AnyStatus[]
  onChange: (status: string | undefined) => void
}): ReactElement => (
  <SelectFilter
    label="Status"
    value={value}
    all="Any status"
    choices={statuses.map((status) => ({ value: status, text: lookOf(status).text }))}
    onChange={onChange}
  />
)
