// The actions of a run. Each change shows at once and then follows the events; a dialog states its effect before.

import { useMutation, useQueryClient } from "@tanstack/react-query"
import { Link, useNavigate } from "@tanstack/react-router"
import { type ReactElement, useState } from "react"
import { calls } from "../../api/calls.ts"
import type { Run } from "../../api/types.ts"
import { Button, buttonClass } from "../../components/button.tsx"
import { ConfirmDialog } from "../../components/dialog.tsx"
import { Icon } from "../../components/icon.tsx"
import { Menu, type MenuItem } from "../../components/menu.tsx"
import { runName } from "../../components/run-table.tsx"
import { showMessage, showProblem } from "../../components/toast.tsx"
import { plural } from "../../format/time.ts"
import { useMayFor } from "../../session/session.ts"
import { RetryDialog, type Retried } from "./retry-dialog.tsx"

const hasEnded = (run: Run): boolean => run.finished_at !== null

export const RunActions = ({ run }: { run: Run }): ReactElement | null => {
  const [asked, setAsked] = useState<"cancel" | "delete" | null>(null)
  const [retried, setRetried] = useState<Retried | null>(null)
  const may = useMayFor(run.workflow, "trigger")
  const mayDelete = useMayFor(run.workflow, "admin")
  const ended = hasEnded(run)
  const close = (): void => setAsked(null)
  const pause = usePause(run)
  const more: MenuItem[] = mayDelete
    ? [{ text: "Delete", icon: "trash", disabled: !ended, onSelect: () => setAsked("delete") }]
    : []
  if (!may) return null
  return (
    <>
      {ended ? null : (
        <>
          <Button icon={run.paused ? "play" : "pause"} busy={pause.isPending} onClick={() => pause.mutate(!run.paused)}>
            {run.paused ? "Resume" : "Pause"}
          </Button>
          <Button kind="danger" icon="stop" onClick={() => setAsked("cancel")}>
            Cancel
          </Button>
        </>
      )}
      {ended && run.status !== "success" ? (
        <Button kind="primary" icon="retry" onClick={() => setRetried({ kind: "run", id: run.id })}>
          Retry
        </Button>
      ) : null}
      <Link to="/workflows/$name/run" params={{ name: run.workflow }} search={{ from: run.id }} className={buttonClass()}>
        <Icon name="play" />
        Run again
      </Link>
      {more.length === 0 ? null : <Menu label="More actions" items={more} />}
      <RetryDialog retried={retried} onClose={() => setRetried(null)} />
      <CancelDialog run={run} open={asked === "cancel"} onClose={close} />
      <DeleteDialog run={run} open={asked === "delete"} onClose={close} />
    </>
  )
}

const usePause = (run: Run) => {
  const client = useQueryClient()
  const key = ["run", run.id]
  const show = (paused: boolean): void => {
    client.setQueryData<Run>(key, (held) => (held === undefined ? held : { ...held, paused }))
  }
  return useMutation({
    mutationFn: (paused: boolean) => calls.pauseRun(run.id, paused),
    onMutate: show,
    onSuccess: (answer, paused) => {
      client.setQueryData(key, answer)
      showMessage(paused ? "Paused: what runs goes on, nothing else starts" : "The run goes on")
    },
    onError: (error, paused) => {
      show(!paused)
      showProblem(`Could not ${paused ? "pause" : "resume"} the run`, error)
    },
  })
}

interface AskedProps {
  run: Run
  open: boolean
  onClose: () => void
}

const CancelDialog = ({ run, open, onClose }: AskedProps): ReactElement => {
  const client = useQueryClient()
  const act = useMutation({
    mutationFn: () => calls.cancelRun(run.id),
    onSuccess: (answer) => {
      client.setQueryData(["run", run.id], answer)
      showMessage("The run is being cancelled")
      onClose()
    },
    onError: (error) => showProblem("Could not cancel the run", error),
  })
  const { pending, running, dispatched, success, failed, skipped } = run.tasks
  return (
    <ConfirmDialog
      open={open}
      onClose={onClose}
      title="Cancel this run?"
      action="Cancel the run"
      kind="danger"
      dismiss="Let it run"
      busy={act.isPending}
      onConfirm={() => act.mutate()}
    >
      <ul className="consequences">
        <li>{plural(running + dispatched, "running task")} stopped: told to end, killed after a while</li>
        <li>{plural(pending, "waiting task")} cancelled at once</li>
        <li>{plural(success + failed + skipped, "ended task")} kept as they are</li>
      </ul>
    </ConfirmDialog>
  )
}

const DeleteDialog = ({ run, open, onClose }: AskedProps): ReactElement => {
  const client = useQueryClient()
  const navigate = useNavigate()
  const act = useMutation({
    mutationFn: () => calls.removeRun(run.id),
    onSuccess: async () => {
      showMessage(`Run ${runName(run)} is deleted`)
      await navigate({ to: "/runs" })
      client.removeQueries({ queryKey: ["run", run.id] })
      await client.invalidateQueries({ queryKey: ["runs"] })
    },
    onError: (error) => showProblem("Could not delete the run", error),
  })
  return (
    <ConfirmDialog
      open={open}
      onClose={onClose}
      title="Delete this run?"
      description="Its tasks, logs and outputs are deleted too. This cannot be undone."
      action="Delete"
      kind="danger"
      dismiss="Keep it"
      busy={act.isPending}
      onConfirm={() => act.mutate()}
    />
  )
}
