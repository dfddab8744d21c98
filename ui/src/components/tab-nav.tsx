import { Link } from "@tanstack/react-router"
import type { ReactElement } from "react"
import type { RUN_TABS, SYSTEM_TABS, WORKFLOW_TABS } from "../pages/search.ts"

type AnyTab = (typeof RUN_TABS | typeof SYSTEM_TABS | typeof WORKFLOW_TABS)[number]

/** Tabs, each with its own address (`?tab=`). They are links, so that they can be shared and opened in another window. */
export const TabNav = <Tab extends AnyTab>({
  label,
  tabs,
  current,
}: {
  label: string
  tabs: readonly { id: Tab; text: string; count?: number }[]
  current: Tab
}): ReactElement => (
  <nav className="tabs" aria-label={label}>
    {tabs.map(({ id, text, count }) => (
      <Link
        key={id}
        to="."
        search={(search) => ({ ...search, tab: id })}
        className="tab"
        aria-current={id === current ? "page" : undefined}
      >
        {text}
        {count === undefined ? null : <span className="tab-count">{count}</span>}
      </Link>
    ))}
  </nav>
)
