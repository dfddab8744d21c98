// Chooses the reporter of a run: JSON lines with `--json`, a live view on a terminal, plain lines otherwise.

import type { Context } from "../target/context.ts"
import { print, printError } from "../terminal/output.ts"
import { wantsColour } from "../terminal/style.ts"
import type { Reporter } from "./reporter.ts"
import type { TerminalRun } from "./terminal-state.ts"
import type { ProgressSource } from "./source.ts"
import { eventLine } from "./event-text.ts"
import { eventShape } from "../../engine/run-json.ts"

export interface ReporterOptions {
  json: boolean
  /** Concurrent tasks, for the estimate of the remaining time. */
  concurrency: number
}

export const createReporter = async (
  context: Context,
  source: ProgressSource,
  view: TerminalRun,
  { json, concurrency }: ReporterOptions,
): Promise<Reporter> => {
  if (json) return jsonReporter(context)
  if (!context.stdout.isTTY || context.env["TERM"] === "dumb") return plainReporter(context)
  const [{ LiveReporter }, { Screen }] = await Promise.all([import("./live-reporter.ts"), import("./screen.ts")])
  return new LiveReporter({
    view,
    screen: new Screen(context.stdout, wantsColour(context.stdout, context.env)),
    clock: context.backends.clock,
    pastDurations: await source.pastDurations(view.workflow.name),
    concurrency,
    lastLine: source.lastLine,
    printWarning: (text) => printError(context, `ork: warning: ${text}`),
  })
}

const plainReporter = (context: Context): Reporter => ({
  start: () => {},
  event(event) {
    const line = eventLine(event)
    if (line !== null) print(context, line)
  },
  note: (text) => printError(context, `ork: ${text}`),
  warn: (text) => printError(context, `ork: warning: ${text}`),
  stop: () => {},
})

const jsonReporter = (context: Context): Reporter => ({
  ...plainReporter(context),
  event: (event) => print(context, JSON.stringify(eventShape(event))),
})
