// The frame of every page: skip link, navigation, theme, help, connection, messages. Only for signed-in users.

import { useQuery, useQueryClient } from "@tanstack/react-query"
import { Link, Outlet, useNavigate, useRouter } from "@tanstack/react-router"
import { type ReactElement, type ReactNode, use, useEffect, useState } from "react"
import { calls } from "../api/calls.ts"
import { ApiProblem } from "../api/http.ts"
import { sessionQuery } from "../api/queries.ts"
import { IconButton } from "../components/button.tsx"
import { Mark } from "../components/mark.tsx"
import { Menu } from "../components/menu.tsx"
import { ProblemState } from "../components/states.tsx"
import { showProblem } from "../components/toast.tsx"
import { focusSearch, useKeyboard, useShortcut } from "../keyboard/use-shortcuts.ts"
import { useConnection, WatchContext } from "../live/live.ts"
import { SessionContext } from "../session/session.ts"
import { Announcer } from "./announcer.tsx"
import { HelpDialog } from "./help-dialog.tsx"
import { Navigation } from "./navigation.tsx"
import { ServerProblem } from "./server-problem.tsx"
import { setTheme, type Theme, useTheme } from "./theme.ts"
import { Icon } from "../components/icon.tsx"

export const Shell = (): ReactNode => {
  const session = useQuery(sessionQuery)
  const status = session.error instanceof ApiProblem ? session.error.status : null
  if (status === 401 || status === 403) return <ToWelcome scope={status === 403} />
  if (session.data === undefined) {
    return session.isError ? (
      <main className="alone">
        <ProblemState error={session.error} retry={() => void session.refetch()} />
      </main>
    ) : null
  }
  return (
    <SessionContext value={session.data}>
      <SignedIn version={session.data.version} />
    </SessionContext>
  )
}

/** Redirects once; the shell renders until the new address is open. */
const ToWelcome = ({ scope }: { scope: boolean }): null => {
  const navigate = useNavigate()
  const router = useRouter()
  useEffect(() => {
    const { href } = router.state.location
    void navigate({ to: "/welcome", search: scope ? { problem: "scope" } : { next: href }, replace: true })
  }, [navigate, router, scope])
  return null
}

const SignedIn = ({ version }: { version: string }): ReactElement => {
  const [help, setHelp] = useState(false)
  const watch = use(WatchContext)
  useEffect(() => watch?.(), [watch])
  useKeyboard()
  useShortcut("?", "Show these shortcuts", () => setHelp(true))
  useShortcut("/", "Search", focusSearch)
  return (
    <div className="shell">
      <a href="#content" className="skip">
        Skip to the content
      </a>
      <header className="bar">
        <Link to="/" className="brand">
          <Mark />
          <span>Ork</span>
        </Link>
        <Navigation />
        <div className="bar-foot">
          <span className="version">{version}</span>
          <IconButton label="Keyboard shortcuts" icon="keyboard" onClick={() => setHelp(true)} />
          <ThemeMenu />
          <SignOut />
        </div>
      </header>
      <div className="content">
        <ConnectionBanner />
        <ServerProblem />
        <main id="content" tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      <Announcer />
      <HelpDialog open={help} onClose={() => setHelp(false)} />
    </div>
  )
}

const THEMES: readonly { theme: Theme; text: string }[] = [
  { theme: "system", text: "As the system" },
  { theme: "light", text: "Light" },
  { theme: "dark", text: "Dark" },
]

const ThemeMenu = (): ReactElement => {
  const theme = useTheme()
  return (
    <Menu
      label="Theme"
      icon={theme === "dark" ? "moon" : "sun"}
      items={THEMES.map((each) => ({
        text: each.text,
        ...(each.theme === theme && { icon: "check" as const }),
        onSelect: () => setTheme(each.theme),
      }))}
    />
  )
}

const SignOut = (): ReactElement => {
  const navigate = useNavigate()
  const client = useQueryClient()
  const signOut = async (): Promise<void> => {
    await calls.signOut()
    client.clear()
    await navigate({ to: "/welcome", search: {} })
  }
  return (
    <IconButton
      label="Sign out"
      icon="signout"
      onClick={() => void signOut().catch((error: unknown) => showProblem("Could not sign out", error))}
    />
  )
}

/** States that the shown data may be old. Disappears when the stream is connected again. */
const ConnectionBanner = (): ReactElement => {
  const lost = useConnection() === "lost"
  return (
    <div role="status" className="banner-place">
      {lost ? (
        <p className="banner">
          <Icon name="warning" />
          The connection to the server is lost. What you see may be old; it is being connected again by itself.
        </p>
      ) : null}
    </div>
  )
}
