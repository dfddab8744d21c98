// The panel next to the views that shows the opened task.

import { type ReactElement, useEffect, useRef } from "react"
import { IconButton } from "../../components/button.tsx"
import { useShortcut } from "../../keyboard/use-shortcuts.ts"
import { instanceName, type RunState } from "../../run/state.ts"
import { useSelection } from "./selection.ts"
import { TaskPanel } from "./task-panel.tsx"

export const TaskSide = ({ runId, state }: { runId: string; state: RunState }): ReactElement | null => {
  const { task } = useSelection()
  const node = task === null ? undefined : state.byName.get(task)
  return node === undefined ? null : <Side key={node.name} runId={runId} state={state} name={node.name} />
}

const Side = ({ runId, state, name }: { runId: string; state: RunState; name: string }): ReactElement => {
  const { path, close } = useSelection()
  const label = state.byName.get(name)?.instances.get(path)?.label ?? null
  const heading = useRef<HTMLHeadingElement>(null)
  const opener = useRef(document.activeElement)
  useShortcut("Escape", "Close the task", () => {
    close()
    if (opener.current instanceof HTMLElement) opener.current.focus()
  })
  // Move the focus here when the task was opened with the keyboard.
  useEffect(() => heading.current?.focus({ preventScroll: true }), [])
  return (
    <aside className="card task-side" aria-label={`Task ${name}`}>
      <header className="card-head task-side-head">
        <h2 ref={heading} tabIndex={-1} className="clip" title={name}>
          {name}
          {path === "" ? null : <span className="faint">{instanceName("", { path, label })}</span>}
        </h2>
        <IconButton label="Close the task" icon="cross" onClick={close} />
      </header>
      <TaskPanel runId={runId} state={state} name={name} path={path} />
    </aside>
  )
}
