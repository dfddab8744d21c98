// Puts the live view together: screen, estimate of earlier runs, last log lines. Loaded only on a terminal.

import type { Context } from "../target/backends.ts"
import { printError } from "../terminal/output.ts"
import { LiveReporter } from "./live-reporter.ts"
import type { RunView } from "./model.ts"
import type { Reporter } from "./reporter.ts"
import { Screen } from "./screen.ts"
import type { RunSource } from "../run/run-source.ts"
import { wantsColour } from "../terminal/style.ts"

export const liveReporter = async (
  context: Context,
  source: RunSource,
  view: RunView,
  concurrency: number,
): Promise<Reporter> =>
  new LiveReporter({
    view,
    screen: new Screen(context.stdout, wantsColour(context.stdout, context.env)),
    clock: context.backends.clock,
    means: await source.pastDurations(view.workflow.name),
    concurrency,
    lastLine: source.lastLine,
    printWarning: (text) => printError(context, `ork: warning: ${text}`),
  })
