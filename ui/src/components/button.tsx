import type { ButtonHTMLAttributes, ReactElement, ReactNode } from "react"
import { Icon, type IconName } from "./icon.tsx"

export type ButtonKind = "plain" | "primary" | "danger" | "quiet"

export interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "className"> {
  kind?: ButtonKind
  icon?: IconName
  /** An operation is in progress: shown, and the button is disabled. */
  busy?: boolean
  children: ReactNode
}

export const buttonClass = (kind: ButtonKind = "plain"): string => `button button-${kind}`

export const Button = ({ kind = "plain", icon, busy = false, children, disabled, ...rest }: ButtonProps): ReactElement => (
  <button type="button" {...rest} className={buttonClass(kind)} disabled={disabled === true || busy} aria-busy={busy}>
    {busy ? <Icon name="spinner" className="spinning" /> : icon === undefined ? null : <Icon name={icon} />}
    {children}
  </button>
)

/** An icon button whose label is its accessible name and its title. */
export const IconButton = ({
  label,
  icon,
  ...rest
}: Omit<ButtonHTMLAttributes<HTMLButtonElement>, "className" | "children"> & {
  label: string
  icon: IconName
}): ReactElement => (
  <button type="button" title={label} aria-label={label} {...rest} className="button button-quiet button-icon">
    <Icon name={icon} />
  </button>
)
