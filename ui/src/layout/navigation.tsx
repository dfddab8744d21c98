// The navigation in the side bar (at the bottom on a phone), with its shortcuts.

import { Link, useNavigate } from "@tanstack/react-router"
import type { ReactElement } from "react"
import { Icon, type IconName } from "../components/icon.tsx"
import { useShortcut } from "../keyboard/use-shortcuts.ts"
import { useMay } from "../session/session.ts"

/** `server`: the page shows what belongs to no workflow, which a session with limits may not see. */
const PAGES = [
  { to: "/workflows", text: "Workflows", icon: "workflows", letter: "w", server: false },
  { to: "/runs", text: "Runs", icon: "runs", letter: "r", server: false },
  { to: "/jobs", text: "Jobs", icon: "jobs", letter: "j", server: true },
  { to: "/schedules", text: "Schedules", icon: "calendar", letter: "s", server: false },
  { to: "/workers", text: "Workers", icon: "workers", letter: "o", server: true },
  { to: "/system", text: "System", icon: "system", letter: "y", server: true },
] as const satisfies readonly { to: string; text: string; icon: IconName; letter: string; server: boolean }[]

const usePageKey = ({ to, text, letter }: (typeof PAGES)[number]): void => {
  const navigate = useNavigate()
  useShortcut(`g ${letter}`, `Go to ${text.toLowerCase()}`, () => void navigate({ to }))
}

const NavigationLink = (page: (typeof PAGES)[number]): ReactElement => {
  usePageKey(page)
  return (
    <Link to={page.to} className="nav-link" activeProps={{ "aria-current": "page" }} activeOptions={{ includeSearch: false }}>
      <Icon name={page.icon} />
      <span>{page.text}</span>
    </Link>
  )
}

export const Navigation = (): ReactElement => {
  const mayAll = useMay("read")
  return (
    <nav className="nav" aria-label="Pages">
      {PAGES.filter(({ server }) => mayAll || !server).map((page) => (
        <NavigationLink key={page.to} {...page} />
      ))}
    </nav>
  )
}
