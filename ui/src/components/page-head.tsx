import { Link } from "@tanstack/react-router"
import { type ReactElement, type ReactNode, useEffect } from "react"

/** A page's name, what can be done there, and the way back up. Also the title of the window. */
export const PageHead = ({
  title,
  up,
  beside,
  actions,
  children,
}: {
  title: string
  up?: { to: string; text: string }
  /** Next to the name: a status. */
  beside?: ReactNode
  actions?: ReactNode
  /** Below: a description, facts. */
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
