import { type ReactElement, useEffect } from "react"
import { mayReload } from "../code.ts"
import { Button } from "./button.tsx"
import { Icon } from "./icon.tsx"

const POLL_MS = 2000
const RELOADED = "ork.reloaded"

const reload = (): void => {
  sessionStorage.setItem(RELOADED, String(Date.now()))
  window.location.reload()
}

/** Replaces a page whose code could not be loaded. Reloads when the server responds. */
export const MissingCode = (): ReactElement => {
  useEffect(() => {
    const look = (): void => {
      if (!mayReload(sessionStorage.getItem(RELOADED), Date.now())) return
      void fetch("/health", { cache: "no-store" }).then(
        ({ ok }) => {
          if (ok) reload()
        },
        () => undefined,
      )
    }
    look()
    const timer = setInterval(look, POLL_MS)
    return () => clearInterval(timer)
  }, [])
  return (
    <div className="empty problem" role="alert">
      <Icon name="warning" className="empty-icon" />
      <p className="empty-title">This part of the web UI could not be loaded</p>
      <p className="empty-about">
        The server does not respond, or it was updated. The page reloads as soon as the server responds.
      </p>
      <Button icon="retry" onClick={reload}>
        Reload now
      </Button>
    </div>
  )
}
