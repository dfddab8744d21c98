import type { ReactElement } from "react"
import { Icon } from "../components/icon.tsx"
import { useConnection } from "../live/live.ts"

/** States that the shown data may be old. Disappears when the stream is connected again. */
export const ConnectionBanner = (): ReactElement => {
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
