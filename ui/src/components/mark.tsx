import type { ReactElement } from "react"

/** Ork's logo; always shown next to its name. */
export const Mark = (): ReactElement => (
  <svg className="mark" viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="8" />
    <path d="M11 16h4M17.5 16c3 0 2-6 5-6M17.5 16c3 0 2 6 5 6" />
    <circle cx="9" cy="16" r="3.2" />
    <circle cx="23.5" cy="10" r="3.2" />
    <circle cx="23.5" cy="22" r="3.2" />
  </svg>
)
