import { Switch as Base } from "@base-ui/react/switch"
import type { ReactElement } from "react"

export const Switch = ({
  label,
  checked,
  disabled = false,
  onChange,
}: {
  label: string
  checked: boolean
  disabled?: boolean
  onChange: (checked: boolean) => void
}): ReactElement => (
  <Base.Root
    className="switch"
    aria-label={label}
    title={label}
    checked={checked}
    disabled={disabled}
    onCheckedChange={onChange}
  >
    <Base.Thumb className="switch-thumb" />
  </Base.Root>
)
