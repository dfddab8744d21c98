// Follows a run to its end: progress, Ctrl-C, the summary, the exit code.

import type { Context } from "../target/backends.ts"
import { onInterrupt } from "./interrupts.ts"
import { print, printSpans } from "../terminal/output.ts"
import { jsonReporter, plainReporter } from "../progress/line-reporters.ts"
import type { RunView } from "../progress/model.ts"
import type { Reporter } from "../progress/reporter.ts"
import { takeRun } from "../progress/seed.ts"
import { FAILURES_SHOWN, failuresOf, summaryLines } from "../progress/summary.ts"
import type { RunSource } from "./run-source.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { Engine } from "../../engine/engine.ts"
import type { Run } from "../../protocol/client/client.ts"
import { Conflict } from "../../store/contract/errors.ts"

export const EXIT_INTERRUPTED = 130

export const makeReporter = async (
  context: Context,
  source: RunSource,
  view: RunView,
  options: { json: boolean; concurrency: number },
): Promise<Reporter> => {
  if (options.json) return jsonReporter(context)
  if (!context.stdout.isTTY || context.env["TERM"] === "dumb") return plainReporter(context)
  const { liveReporter } = await import("../progress/live.ts")
  return liveReporter(context, source, view, options.concurrency)
}

export interface Interrupts {
  /** The run is under way: from here on an interrupt cancels it. */
  begun(): void
  /** Whether there was one. */
  readonly heard: boolean
  stop(): void
}

/**
 * The first interrupt cancels the run, the second ends this process and with it all of its tasks. Before the run is under way
 * there is nothing to cancel: then the first one ends it too.
 */
export const listenForInterrupts = (engine: Engine, runId: RunId, reporter: Reporter): Interrupts => {
  let begun = false
  let heard = false
  const exit = (): void => {
    reporter.stop()
    process.exit(EXIT_INTERRUPTED)
  }
  const cancel = async (): Promise<void> => {
    heard = true
    reporter.note("cancelling… press Ctrl-C again to kill")
    await engine.cancel(runId).catch((error: unknown) => {
      // A run that ended in this very moment needs no cancel.
      if (!(error instanceof Conflict)) reporter.warn(`could not cancel: ${String(error)}`)
    })
  }
  const stop = onInterrupt(() => (begun ? void cancel() : exit()), exit)
  return {
    begun: () => void (begun = true),
    get heard() {
      return heard
    },
    stop,
  }
}

export const summarize = async (context: Context, source: RunSource, view: RunView, run: Run, json: boolean): Promise<void> => {
  if (json) {
    print(context, JSON.stringify(run))
    return
  }
  takeRun(view, { status: run.status, error: run.error, startedAt: run.started_at, finishedAt: run.finished_at })
  const { shown, all } = failuresOf(view)
  const failures = []
  for (const failure of shown.slice(0, FAILURES_SHOWN)) {
    const lastLines = await source.tail(failure.task, failure.path).catch(() => [])
    failures.push({ failure, lastLines })
  }
  printSpans(context, summaryLines({ view, counts: run.tasks, failures, more: all - failures.length }))
}

export const exitCodeOf = (run: Pick<Run, "status">, interrupted: boolean): number => {
  if (run.status === "success") return 0
  return interrupted && run.status === "cancelled" ? EXIT_INTERRUPTED : 1
}

/** The engine's log, told by the reporter. */
export const warnTo = (reporter: Reporter) => {
  const warn = (fields: object, message: string): void => reporter.warn(`${message} ${JSON.stringify(fields)}`)
  return { info: () => {}, warn, error: warn }
}
