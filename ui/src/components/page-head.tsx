import { Link } from "@tanstack/react-router"
import { type ReactElement, type ReactNode, useEffect } from "react"

/** The heading of a page: name, actions and the link to the parent page. Also sets the window title. */
export const PageHead = ({
  title,
  up,
  beside,
  actions,
  children,
}: {
  title: string
  up?: { to: string; text: string }
  /** A status next to the name. */
  beside?: ReactNode
  actions?: ReactNode
  /** A description or facts below the name. */
  children?: ReactNode
}): ReactElement => {
  useEffect(() => {
    document.title = `${title} · Ork`
  }, [title])
  return (
    <header className="page-head">
      {up === undefined ? null : (
        <nav aria-label="Breadcrumb" className="crumbs">
          <Link to={up.to}>{up.text}</Link>
          <span aria-hidden="true">/</span>
        </nav>
      )}
      <div className="page-head-line">
        <h1 tabIndex={-1}>{title}</h1>
        {beside}
        {actions === undefined ? null : <div className="page-actions">{actions}</div>}
      </div>
      {children}
    </header>
  )
}
