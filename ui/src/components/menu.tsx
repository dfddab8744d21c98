import { Menu as Base } from "@base-ui/react/menu"
import type { ReactElement } from "react"
import { IconButton } from "./button.tsx"
import { Icon, type IconName } from "./icon.tsx"

export interface MenuItem {
  text: string
  icon?: IconName
  disabled?: boolean
  onSelect: () => void
}

/** A menu of further actions behind three dots or another icon. */
export const Menu = ({
  label,
  icon = "more",
  items,
}: {
  label: string
  icon?: IconName
  items: readonly MenuItem[]
}): ReactElement => (
  <Base.Root>
    <Base.Trigger render={<IconButton label={label} icon={icon} />} />
    <Base.Portal>
      <Base.Positioner sideOffset={4} align="end">
        <Base.Popup className="menu">
          {items.map(({ text, icon: itemIcon, disabled = false, onSelect }) => (
            <Base.Item key={text} className="menu-item" disabled={disabled} onClick={onSelect}>
              {itemIcon === undefined ? null : <Icon name={itemIcon} />}
              {text}
            </Base.Item>
          ))}
        </Base.Popup>
      </Base.Positioner>
    </Base.Portal>
  </Base.Root>
)
