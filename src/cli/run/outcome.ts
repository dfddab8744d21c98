// The summary and the exit code of a closed run.

import type { Context } from "../target/context.ts"
import { print, printSpans } from "../terminal/output.ts"
import { setRunFields } from "../progress/load-view.ts"
import type { TerminalRun } from "../progress/terminal-state.ts"
import type { ProgressSource } from "../progress/source.ts"
import { failuresOf, MAX_FAILURES_SHOWN, summaryLines } from "../progress/summary.ts"
import type { Run } from "../../protocol/client/client.ts"

export const EXIT_INTERRUPTED = 130

export const printSummary = async (
  context: Context,
  source: ProgressSource,
  view: TerminalRun,
  run: Run,
  json: boolean,
): Promise<void> => {
  if (json) {
    print(context, JSON.stringify(run))
    return
  }
  setRunFields(view, { status: run.status, error: run.error, startedAt: run.started_at, finishedAt: run.finished_at })
  const { shown, total } = failuresOf(view)
  const failures = []
  for (const failure of shown.slice(0, MAX_FAILURES_SHOWN)) {
    const lastLines = await source.tailLines(failure.task, failure.path).catch(() => [])
    failures.push({ failure, lastLines })
  }
  printSpans(context, summaryLines({ view, counts: run.tasks, failures, more: total - failures.length }))
}

export const exitCodeOf = (run: Pick<Run, "status">, interrupted: boolean): number => {
  if (run.status === "success") return 0
  return interrupted && run.status === "cancelled" ? EXIT_INTERRUPTED : 1
}
