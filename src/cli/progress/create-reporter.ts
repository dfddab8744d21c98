// Chooses the reporter of a run: JSON lines with `--json`, a live view on a terminal, plain lines otherwise.

import type { Context } from "../target/context.ts"
import { printError } from "../terminal/output.ts"
import { wantsColour } from "../terminal/style.ts"
import { jsonReporter, plainReporter } from "./line-reporters.ts"
import type { Reporter } from "./reporter.ts"
import type { RunView } from "./run-view.ts"
import type { ProgressSource } from "./source.ts"

export interface ReporterOptions {
  json: boolean
  /** Concurrent tasks, for the estimate of the remaining time. */
  concurrency: number
}

export const createReporter = async (
  context: Context,
  source: ProgressSource,
  view: RunView,
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
