// Short messages about completed or rejected actions. Errors stay until they are closed.

import { Toast } from "@base-ui/react/toast"
import type { ReactElement } from "react"
import { problemText } from "../api/http.ts"
import { IconButton } from "./button.tsx"
import { Icon } from "./icon.tsx"

const manager = Toast.createToastManager()
const SHOWN_MS = 5000

export const showMessage = (title: string): void => void manager.add({ title, type: "done", timeout: SHOWN_MS })

export const showProblem = (title: string, error: unknown): void =>
  void manager.add({ title, description: problemText(error), type: "problem", priority: "high", timeout: 0 })

const List = (): ReactElement => {
  const { toasts } = Toast.useToastManager()
  return (
    <Toast.Portal>
      <Toast.Viewport className="toasts">
        {toasts.map((toast) => (
          <Toast.Root key={toast.id} toast={toast} className={`toast toast-${toast.type ?? "done"}`}>
            <Icon name={toast.type === "problem" ? "warning" : "check"} />
            <div className="toast-text">
              <Toast.Title className="toast-title" render={<p />} />
              <Toast.Description className="toast-about" />
            </div>
            <Toast.Close render={<IconButton label="Dismiss" icon="cross" />} />
          </Toast.Root>
        ))}
      </Toast.Viewport>
    </Toast.Portal>
  )
}

export const Toasts = (): ReactElement => (
  <Toast.Provider toastManager={manager}>
    <List />
  </Toast.Provider>
)
