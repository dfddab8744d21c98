import { Fragment, type ReactElement } from "react"
import { Dialog } from "../components/dialog.tsx"
import { useRegistered } from "../keyboard/use-shortcuts.ts"

/** Lists the active shortcuts. */
export const HelpDialog = ({ open, onClose }: { open: boolean; onClose: () => void }): ReactElement => {
  const shortcuts = useRegistered()
  return (
    <Dialog open={open} onClose={onClose} title="Keyboard shortcuts">
      <dl className="shortcuts">
        {shortcuts.toReversed().map(({ keys, text }) => (
          <Fragment key={keys.join(" ")}>
            <dt>
              {keys.map((key, i) => (
                <kbd key={i}>{key}</kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </Fragment>
        ))}
        <dt>
          <kbd>Enter</kbd>
        </dt>
        <dd>Open the focused item</dd>
        <dt>
          <kbd>Esc</kbd>
        </dt>
        <dd>Close a dialog, leave a field</dd>
      </dl>
    </Dialog>
  )
}
