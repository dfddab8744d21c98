// The actions of a task: retry, override, approve, reject; by the key's scopes.

import { useMutation, useQueryClient } from "@tanstack/react-query"
import { type ReactElement, useState } from "react"
import { calls, type TaskRef } from "../../api/calls.ts"
import type { Task } from "../../api/types.ts"
import { Button } from "../../components/button.tsx"
import { ConfirmDialog } from "../../components/dialog.tsx"
import { Field } from "../../components/field.tsx"
import { Time } from "../../components/time.tsx"
import { showMessage, showProblem } from "../../components/toast.tsx"
import { useThisRun } from "../../run/use-run.ts"
import { useMayFor } from "../../session/session.ts"
import { type Retried, RetryDialog } from "./retry-dialog.tsx"

export type Outcome = "success" | "failed"

/** Buttons for a whole task (empty `path`, no `task`) or one instance. */
export const TaskActions = ({ at, task, fanned }: { at: TaskRef; task: Task | null; fanned: boolean }): ReactElement | null => {
  const [retried, setRetried] = useState<Retried | null>(null)
  const [outcome, setOutcome] = useState<Outcome | null>(null)
  const { query } = useThisRun()
  const mayRetry = useMayFor(query.data?.workflow, "trigger")
  const mayMark = useMayFor(query.data?.workflow, "admin")
  const ended = query.data !== undefined && query.data.finished_at !== null
  const live = task !== null && task.waiting === null && (task.status === "running" || task.status === "dispatched")
  if (!mayRetry) return null
  const later = ended ? undefined : "Once the run has ended"
  return (
    <div className="row">
      {fanned && at.path !== "" ? (
        <Button icon="retry" disabled={!ended} title={later} onClick={() => setRetried({ kind: "instance", at })}>
          Retry this instance
        </Button>
      ) : null}
      <Button
        icon="retry"
        disabled={!ended}
        title={later}
        onClick={() => setRetried({ kind: "from", id: at.runId, task: at.name })}
      >
        Retry from here
      </Button>
      {mayMark && task !== null
        ? (["success", "failed"] as const)
            .filter((each) => each !== task.status)
            .map((each) => (
              <Button
                key={each}
                disabled={live}
                title={live ? "Once it does not run" : undefined}
                onClick={() => setOutcome(each)}
              >
                Mark as {each}
              </Button>
            ))
        : null}
      <RetryDialog retried={retried} onClose={() => setRetried(null)} />
      {outcome === null ? null : <OverrideDialog at={at} outcome={outcome} onClose={() => setOutcome(null)} />}
    </div>
  )
}

const useChanged = ({ runId }: TaskRef): (() => Promise<void>) => {
  const client = useQueryClient()
  return async () => {
    await Promise.all(["task", "run", "explain", "steps"].map((kind) => client.invalidateQueries({ queryKey: [kind, runId] })))
  }
}

const OverrideDialog = ({ at, outcome, onClose }: { at: TaskRef; outcome: Outcome; onClose: () => void }): ReactElement => {
  const [reason, setReason] = useState("")
  const [tried, setTried] = useState(false)
  const changed = useChanged(at)
  const given = reason.trim()
  const act = useMutation({
    mutationFn: () => calls.markTask(at, outcome, given),
    onSuccess: async () => {
      showMessage(`${at.name} is marked as ${outcome}`)
      onClose()
      await changed()
    },
    onError: (error) => showProblem(`Could not mark ${at.name}`, error),
  })
  const confirm = (): void => {
    setTried(true)
    if (given !== "") act.mutate()
  }
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Mark ${at.name} as ${outcome}?`}
      description={
        outcome === "success"
          ? "What waits for it goes on as if it had succeeded, without an output."
          : "It counts as failed, and so does what needs its success."
      }
      action={`Mark as ${outcome}`}
      kind={outcome === "failed" ? "danger" : "primary"}
      busy={act.isPending}
      onConfirm={confirm}
    >
      <Field label="Reason" required hint="Kept in the audit log." problem={tried && given === "" ? "Say why" : null}>
        {(names) => <input {...names} className="input" value={reason} onChange={(event) => setReason(event.target.value)} />}
      </Field>
    </ConfirmDialog>
  )
}

export type ApprovalRequest = Pick<NonNullable<Task["waiting"]>, "message" | "default" | "until">

/** Buttons for a task, or a step of a durable function, that waits for an approval. */
export const ApprovalBox = ({ at, waiting }: { at: TaskRef; waiting: ApprovalRequest }): ReactElement => {
  const [comment, setComment] = useState("")
  const may = useMayFor(useThisRun().query.data?.workflow, "trigger")
  const changed = useChanged(at)
  const act = useMutation({
    mutationFn: (verb: "approve" | "reject") => calls.answerTask(at, verb, comment.trim()),
    onSuccess: async (_answer, verb) => {
      showMessage(`${at.name} is ${verb === "approve" ? "approved" : "rejected"}`)
      await changed()
    },
    onError: (error, verb) => showProblem(`Could not ${verb} ${at.name}`, error),
  })
  return (
    <section className="approval" aria-label="Approval">
      <p className="approval-message">{waiting.message ?? "Waits for somebody to approve it."}</p>
      {waiting.until === null ? null : (
        <p className="soft small">
          {waiting.default === "approve" ? "Approves" : "Rejects"} itself <Time at={waiting.until} />
        </p>
      )}
      {may ? (
        <>
          <Field label="Comment">
            {(names) => (
              <input {...names} className="input" value={comment} onChange={(event) => setComment(event.target.value)} />
            )}
          </Field>
          <div className="row">
            <Button
              kind="primary"
              icon="check"
              busy={act.isPending && act.variables === "approve"}
              disabled={act.isPending}
              onClick={() => act.mutate("approve")}
            >
              Approve
            </Button>
            <Button
              kind="danger"
              icon="cross"
              busy={act.isPending && act.variables === "reject"}
              disabled={act.isPending}
              onClick={() => act.mutate("reject")}
            >
              Reject
            </Button>
          </div>
        </>
      ) : (
        <p className="soft small">Sign in with a key that has the scope trigger to approve or reject.</p>
      )}
    </section>
  )
}
