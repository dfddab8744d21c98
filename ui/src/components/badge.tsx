import type { ReactElement } from "react"
import { Icon } from "./icon.tsx"
import { type AnyStatus, lookOf } from "./status.ts"

/** A status as icon, word and colour. `detail` follows it: `running 3 of 8`. */
export const StatusBadge = ({ status, detail }: { status: AnyStatus; detail?: string }): ReactElement => {
  const { tone, icon, text } = lookOf(status)
  return (
    <span className={`badge tone-${tone}`}>
      <Icon name={icon} />
      {text}
      {detail === undefined ? null : <span className="badge-detail">{detail}</span>}
    </span>
  )
}

export const Tag = ({ children }: { children: string }): ReactElement => <span className="tag">{children}</span>
