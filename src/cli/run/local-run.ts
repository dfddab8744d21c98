// A private run in this process: an engine for it, a report of its progress, and a summary at its end.

import type { Context, HandlerFiles } from "../target/context.ts"
import { processName } from "../../engine/system.ts"
import { childWorkflows } from "./child-workflows.ts"
import { exitCodeOf, EXIT_INTERRUPTED, printSummary } from "./outcome.ts"
import { privateEngine } from "./private-engine.ts"
import { onTerminationSignal } from "./signals.ts"
import { concurrencyOf } from "../../engine/adaptive-limit.ts"
import { addHandlerExecutors } from "../target/handlers.ts"
import type { OpenStores } from "../target/stores.ts"
import { createReporter } from "../progress/create-reporter.ts"
import { applyEvent, isRunEvent, type TerminalRun } from "../progress/terminal-state.ts"
import type { Reporter } from "../progress/reporter.ts"
import { storeSource } from "../progress/store-source.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { Engine } from "../../engine/engine.ts"
import type { Logger } from "../../engine/ports.ts"
import { runShape } from "../../engine/run-json.ts"
import { Conflict } from "../../store/contract/errors.ts"

export interface LocalRunOptions extends OpenStores {
  handlers: HandlerFiles
  runId: RunId
  view: TerminalRun
  json: boolean
}

export interface LocalRun {
  /** Not started yet. */
  engine: Engine
  reporter: Reporter
  /** Waits for the end of the run, which has started, and prints its summary. Returns the exit code. From now on signals cancel the run. */
  finish(): Promise<number>
  close(): Promise<void>
}

/** Opens an engine for the run, and a reporter of its events. The caller starts the engine and the run. */
export const openLocalRun = async (
  context: Context,
  { handlers, runId, view, json, ...stores }: LocalRunOptions,
): Promise<LocalRun> => {
  const { workerProfiles } = stores.config
  const limits = concurrencyOf(stores.config, context.backends.clock)
  const source = storeSource(stores, runId)
  const reporter = await createReporter(context, source, view, { json, concurrency: limits.concurrency })
  const engine = await privateEngine(context, stores, {
    name: processName(),
    privateRun: runId,
    ...limits,
    executors: (own) => addHandlerExecutors(context, handlers, own),
    log: warningsTo(reporter),
    findWorkflow: childWorkflows(stores.store, workerProfiles),
  })
  // Ignores a closed output (`ork run … | head`): the run continues.
  context.stdout.removeAllListeners("error").on("error", () => {})
  engine.onEvent((event) => {
    if (!isRunEvent(runId, event)) return
    applyEvent(view, event)
    reporter.event(event)
  })
  const cancellation = cancelOnSignal(engine, runId, reporter)
  const stopReporting = (): void => {
    cancellation.stop()
    reporter.stop()
  }
  return {
    engine,
    reporter,
    finish: async () => {
      cancellation.enable()
      const run = await engine.waitForRun(runId)
      stopReporting()
      await printSummary(context, source, view, runShape(run), json)
      return exitCodeOf(run, cancellation.requested)
    },
    close: async () => {
      stopReporting()
      await engine.stop()
    },
  }
}

interface SignalCancellation {
  /** Lets signals cancel the run from now on. */
  enable(): void
  /** True if a signal requested the cancellation. */
  readonly requested: boolean
  stop(): void
}

/**
 * Cancels the run at the first signal and exits, which kills all tasks, at the second one. Exits at the first signal while
 * cancellation is not enabled.
 */
const cancelOnSignal = (engine: Engine, runId: RunId, reporter: Reporter): SignalCancellation => {
  let enabled = false
  let requested = false
  const exit = (): void => {
    reporter.stop()
    process.exit(EXIT_INTERRUPTED)
  }
  const cancel = async (): Promise<void> => {
    requested = true
    reporter.note("cancelling… press Ctrl-C again to kill")
    await engine.cancel(runId).catch((error: unknown) => {
      // A run that has just ended cannot be cancelled.
      if (!(error instanceof Conflict)) reporter.warn(`could not cancel: ${String(error)}`)
    })
  }
  const stop = onTerminationSignal(() => (enabled ? void cancel() : exit()), exit)
  return {
    enable: () => void (enabled = true),
    get requested() {
      return requested
    },
    stop,
  }
}

/** Returns an engine log that passes warnings and errors to the reporter. */
const warningsTo = (reporter: Reporter): Logger => {
  const warn = (fields: object, message: string): void => reporter.warn(`${message} ${JSON.stringify(fields)}`)
  return { info: () => {}, warn, error: warn }
}
