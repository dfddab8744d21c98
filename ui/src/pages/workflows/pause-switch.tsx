import { useMutation, useQueryClient } from "@tanstack/react-query"
import type { ReactElement } from "react"
import { calls } from "../../api/calls.ts"
import type { WorkflowSummary } from "../../api/types.ts"
import { Switch } from "../../components/switch.tsx"
import { showMessage, showProblem } from "../../components/toast.tsx"
import { useMayFor } from "../../session/session.ts"

/** Switches the schedules and triggers of a workflow. Users without the scope see only the state. */
export const PauseSwitch = ({
  workflow: { name, paused, schedules, triggers },
}: {
  workflow: Pick<WorkflowSummary, "name" | "paused"> & { schedules: readonly unknown[]; triggers: readonly unknown[] }
}): ReactElement => {
  const may = useMayFor(name, "admin")
  const client = useQueryClient()
  const change = useMutation({
    mutationFn: (active: boolean) => calls.pauseWorkflow(name, !active),
    onSuccess: async (_made, active) => {
      showMessage(active ? `The schedule of ${name} goes on` : `The schedule of ${name} rests`)
      await Promise.all(["workflows", "workflow", "schedules"].map((key) => client.invalidateQueries({ queryKey: [key] })))
    },
    onError: (error) => showProblem(`Could not change ${name}`, error),
  })
  if (schedules.length + triggers.length === 0) return <span className="faint">none</span>
  const active = change.isPending ? change.variables : !paused
  return (
    <Switch
      label={`Schedule of ${name}`}
      checked={active}
      disabled={!may || change.isPending}
      onChange={(next) => change.mutate(next)}
    />
  )
}
