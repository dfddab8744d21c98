// The retry dialog: shows the plan (what runs again, what is kept) before the retry.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import type { ReactElement } from "react"
import { calls, type TaskAt } from "../../api/calls.ts"
import type { RetryPlan, Run } from "../../api/types.ts"
import { ConfirmDialog } from "../../components/dialog.tsx"
import { Icon, type IconName } from "../../components/icon.tsx"
import { Loaded } from "../../components/states.tsx"
import { showMessage, showProblem } from "../../components/toast.tsx"
import { plural } from "../../format/time.ts"

/** The target of a retry: everything without success, a task with its downstream tasks, or one instance with them. */
export type Retried =
  | { kind: "run"; id: string }
  | { kind: "from"; id: string; task: string }
  | { kind: "instance"; at: TaskAt }

const runOf = (retried: Retried): string => (retried.kind === "instance" ? retried.at.runId : retried.id)

const plan = (retried: Retried): Promise<RetryPlan> =>
  retried.kind === "instance"
    ? calls.planRetryTask(retried.at)
    : calls.planRetry(retried.id, retried.kind === "from" ? retried.task : undefined)

const retry = (retried: Retried): Promise<Run> =>
  retried.kind === "instance"
    ? calls.retryTask(retried.at)
    : calls.retryRun(retried.id, retried.kind === "from" ? retried.task : undefined)

const titleOf = (retried: Retried): string => {
  if (retried.kind === "run") return "Retry this run?"
  return retried.kind === "from" ? `Retry from ${retried.task}?` : `Retry ${retried.at.name}[${retried.at.path}]?`
}

export const RetryDialog = ({ retried, onClose }: { retried: Retried | null; onClose: () => void }): ReactElement | null =>
  retried === null ? null : <Asked retried={retried} onClose={onClose} />

const Asked = ({ retried, onClose }: { retried: Retried; onClose: () => void }): ReactElement => {
  const client = useQueryClient()
  const planned = useQuery({ queryKey: ["plan", retried], queryFn: () => plan(retried), gcTime: 0, retry: false })
  const act = useMutation({
    mutationFn: () => retry(retried),
    onSuccess: (run) => {
      client.setQueryData(["run", run.id], run)
      showMessage("The run goes on")
      onClose()
    },
    onError: (error) => showProblem("Could not retry", error),
    onSettled: () => client.invalidateQueries({ queryKey: ["run", runOf(retried)] }),
  })
  const again = planned.data?.again ?? []
  return (
    <ConfirmDialog
      open
      wide
      onClose={onClose}
      title={titleOf(retried)}
      description="Successful tasks that are kept do not run again; their outputs are reused."
      action={planned.data === undefined ? "Retry" : `Run ${plural(again.length, "task")} again`}
      busy={act.isPending}
      disabled={again.length === 0}
      onConfirm={() => act.mutate()}
    >
      <Loaded query={planned} what="Asking what would run">
        {({ again: runs, kept }) => (
          <div className="plan">
            <PlanList title="Runs again" icon="retry" names={runs} none="Nothing." />
            <PlanList title="Kept" icon="check" names={kept} none="Nothing: every task runs again." />
          </div>
        )}
      </Loaded>
    </ConfirmDialog>
  )
}

const PlanList = ({
  title,
  icon,
  names,
  none,
}: {
  title: string
  icon: IconName
  names: readonly string[]
  none: string
}): ReactElement => (
  <section className={`plan-list plan-${icon}`} aria-label={title}>
    <h3>
      <Icon name={icon} />
      {title}
      <span className="tab-count">{names.length}</span>
    </h3>
    {names.length === 0 ? (
      <p className="soft">{none}</p>
    ) : (
      <ul className="plan-names" tabIndex={0} aria-label={`${title}: tasks`}>
        {names.map((name) => (
          <li key={name}>{name}</li>
        ))}
      </ul>
    )}
  </section>
)
