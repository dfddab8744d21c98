// Dialogs: title, content and buttons. The library handles focus, Escape and the background.

import { Dialog as Base } from "@base-ui/react/dialog"
import type { ReactElement, ReactNode } from "react"
import { Button, type ButtonKind, IconButton } from "./button.tsx"

export interface DialogProps {
  open: boolean
  onClose: () => void
  title: string
  description?: ReactNode
  children?: ReactNode
  footer?: ReactNode
  wide?: boolean
}

export const Dialog = ({ open, onClose, title, description, children, footer, wide = false }: DialogProps): ReactElement => (
  <Base.Root open={open} onOpenChange={(next) => (next ? undefined : onClose())}>
    <Base.Portal>
      <Base.Backdrop className="dialog-backdrop" />
      <Base.Popup className={wide ? "dialog dialog-wide" : "dialog"}>
        <header className="dialog-head">
          <Base.Title className="dialog-title">{title}</Base.Title>
          <Base.Close render={<IconButton label="Close" icon="cross" />} />
        </header>
        {description === undefined ? null : (
          <Base.Description render={<div />} className="dialog-about">
            {description}
          </Base.Description>
        )}
        {children}
        {footer === undefined ? null : <footer className="dialog-foot">{footer}</footer>}
      </Base.Popup>
    </Base.Portal>
  </Base.Root>
)

export interface ConfirmProps extends Omit<DialogProps, "footer"> {
  action: string
  kind?: ButtonKind
  busy?: boolean
  disabled?: boolean
  onConfirm: () => void
  /** Label of the button that cancels. */
  dismiss?: string
}

/** A confirmation before an action that cannot be undone. */
export const ConfirmDialog = ({
  action,
  kind = "primary",
  busy = false,
  disabled = false,
  onConfirm,
  dismiss = "Not now",
  ...rest
}: ConfirmProps): ReactElement => (
  <Dialog
    {...rest}
    footer={
      <>
        <Button kind="plain" onClick={rest.onClose}>
          {dismiss}
        </Button>
        <Button kind={kind} busy={busy} disabled={disabled} onClick={onConfirm}>
          {action}
        </Button>
      </>
    }
  />
)
