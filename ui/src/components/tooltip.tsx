import { Tooltip as Base } from "@base-ui/react/tooltip"
import type { ReactElement, ReactNode } from "react"

/** A few words about what is pointed at or focused. `children` is the element itself, which has a name of its own. */
export const Tooltip = ({
  text,
  children,
}: {
  text: ReactNode
  children: ReactElement<Record<string, unknown>>
}): ReactElement => (
  <Base.Root>
    <Base.Trigger render={children} />
    <Base.Portal>
      <Base.Positioner sideOffset={6}>
        <Base.Popup className="tooltip">{text}</Base.Popup>
      </Base.Positioner>
    </Base.Portal>
  </Base.Root>
)

export const TooltipProvider = ({ children }: { children: ReactNode }): ReactElement => (
  <Base.Provider delay={300}>{children}</Base.Provider>
)
