// The retry dialog: shows the plan (what runs again, what is kept) before the retry.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import type { ReactElement } from "react"
import { calls, type TaskRef } from "../../api/calls.ts"
import type { RetryPlan, RetryStart, Run } from "../../api/types.ts"
import { ConfirmDialog } from "../../components/dialog.tsx"
import { Icon, type IconName } from "../../components/icon.tsx"
import { Loaded } from "../../components/states.tsx"
import { showMessage, showProblem } from "../../components/toast.tsx"
import { plural } from "../../format/time.ts"

/**
 * The target of a retry: everything without success, a task with its downstream tasks, one instance with them, or a step of a durable
 * function with those after it.
 */
export type Retried =
  | { kind: "run"; id: string }
  | { kind: "from"; id: string; task: string }
  | { kind: "instance"; at: TaskRef }
  | { kind: "step"; id: string; step: { name: string; occurrence: number } }

const runOf = (retried: Retried): string => (retried.kind === "instance" ? retried.at.runId : retried.id)

const startOf = (retried: Exclude<Retried, { kind: "instance" }>): RetryStart => {
  if (retried.kind === "step") return { step: retried.step }
  return retried.kind === "from" ? { from: retried.task } : {}
}

const plan = (retried: Retried): Promise<RetryPlan> =>
  retried.kind === "instance" ? calls.planRetryTask(retried.at) : calls.planRetry(retried.id, startOf(retried))

const retry = (retried: Retried): Promise<Run> =>
  retried.kind === "instance" ? calls.retryTask(retried.at) : calls.retryRun(retried.id, startOf(retried))

const titleOf = (retried: Retried): string => {
  if (retried.kind === "run") return "Retry this run?"
  if (retried.kind === "step") return `Retry from the step ${retried.step.name}?`
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
  const what = retried.kind === "step" ? "step" : "task"
  return (
    <ConfirmDialog
      open
      wide
      onClose={onClose}
      title={titleOf(retried)}
      description={`Successful ${what}s that are kept do not run again; their outputs are reused.`}
      action={planned.data === undefined ? "Retry" : `Run ${plural(again.length, what)} again`}
      busy={act.isPending}
      disabled={again.length === 0}
      onConfirm={() => act.mutate()}
    >
      <Loaded query={planned} what="Asking what would run">
        {({ again: runs, kept }) => (
          <div className="plan">
            <PlanList title="Runs again" icon="retry" names={runs} none="Nothing." />
            <PlanList title="Kept" icon="check" names={kept} none={`Nothing: every ${what} runs again.`} />
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
      <ul className="plan-names" tabIndex={0} aria-label={`${title}: names`}>
        {names.map((name) => (
          <li key={name}>{name}</li>
        ))}
      </ul>
    )}
  </section>
)
