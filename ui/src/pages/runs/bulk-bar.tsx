// The bar that cancels or retries the chosen runs.

import { useMutation, useQueryClient } from "@tanstack/react-query"
import { type ReactElement, type ReactNode, useState } from "react"
import { calls } from "../../api/calls.ts"
import type { Run } from "../../api/types.ts"
import { Button } from "../../components/button.tsx"
import { ConfirmDialog } from "../../components/dialog.tsx"
import { runName } from "../../components/run-table.tsx"
import { StatusBadge } from "../../components/badge.tsx"
import { showMessage, showProblem } from "../../components/toast.tsx"
import { plural } from "../../format/time.ts"
import { type BulkVerb, fitFor, forAll } from "./bulk.ts"

const WORDS = {
  cancel: {
    title: "Cancel",
    about: "Tasks that wait are cancelled at once, those that run when their processes are dead.",
    kind: "danger",
  },
  retry: { title: "Retry", about: "Failed, skipped and cancelled tasks run again; what succeeded is kept.", kind: "primary" },
} as const

const SHOWN = 8

/** The bulk actions; hidden without a selection. */
export const BulkBar = ({ runs, onDone }: { runs: readonly Run[]; onDone: () => void }): ReactNode => {
  const [asked, setAsked] = useState<BulkVerb | null>(null)
  const client = useQueryClient()
  const act = useMutation({
    mutationFn: (verb: BulkVerb) =>
      forAll(
        fitFor(verb, runs).map((run) => run.id),
        verb === "cancel" ? calls.cancelRun : (id) => calls.retryRun(id),
      ),
    onSuccess: async ({ done, failed }, verb) => {
      setAsked(null)
      onDone()
      if (done > 0)
        showMessage(verb === "cancel" ? `${plural(done, "run")} being cancelled` : `${plural(done, "run")} started again`)
      const [first] = failed
      if (first !== undefined) showProblem(`Could not ${verb} ${plural(failed.length, "run")}`, first.error)
      await client.invalidateQueries({ queryKey: ["runs"] })
    },
  })
  if (runs.length === 0) return null
  const verb = asked ?? "cancel"
  return (
    <div className="card bulk" role="region" aria-label="Chosen runs">
      <span>{plural(runs.length, "run")} chosen</span>
      <Button icon="retry" disabled={fitFor("retry", runs).length === 0} onClick={() => setAsked("retry")}>
        Retry
      </Button>
      <Button kind="danger" icon="stop" disabled={fitFor("cancel", runs).length === 0} onClick={() => setAsked("cancel")}>
        Cancel
      </Button>
      <Button kind="quiet" onClick={onDone}>
        Choose none
      </Button>
      <BulkDialog
        verb={verb}
        runs={runs}
        open={asked !== null}
        busy={act.isPending}
        onClose={() => setAsked(null)}
        onConfirm={() => act.mutate(verb)}
      />
    </div>
  )
}

interface BulkDialogProps {
  verb: BulkVerb
  runs: readonly Run[]
  open: boolean
  busy: boolean
  onClose: () => void
  onConfirm: () => void
}

const BulkDialog = ({ verb, runs, open, busy, onClose, onConfirm }: BulkDialogProps): ReactElement => {
  const fit = fitFor(verb, runs)
  return (
    <ConfirmDialog
      open={open}
      onClose={onClose}
      title={`${WORDS[verb].title} ${plural(fit.length, "run")}?`}
      description={WORDS[verb].about}
      action={`${WORDS[verb].title} ${plural(fit.length, "run")}`}
      kind={WORDS[verb].kind}
      busy={busy}
      onConfirm={onConfirm}
    >
      <ul className="bulk-list">
        {fit.slice(0, SHOWN).map((run) => (
          <li key={run.id}>
            <span>{runName(run)}</span>
            <StatusBadge status={run.status} />
          </li>
        ))}
        {fit.length > SHOWN ? <li className="soft">and {fit.length - SHOWN} more</li> : null}
      </ul>
      {fit.length < runs.length ? (
        <p className="soft small">
          {verb === "cancel" ? "Ended already" : "Nothing to retry"}: {plural(runs.length - fit.length, "chosen run")}.
        </p>
      ) : null}
    </ConfirmDialog>
  )
}
