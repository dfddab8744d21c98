// Puts the live view together: screen, estimate of earlier runs, last log lines. Loaded only on a terminal.

import type { Context } from "./backends.ts"
import { printError } from "./output.ts"
import { LiveReporter } from "./progress/live-reporter.ts"
import type { RunView } from "./progress/model.ts"
import type { Reporter } from "./progress/reporter.ts"
import { Screen } from "./progress/screen.ts"
import type { RunSource } from "./run-source.ts"
import { wantsColour } from "./style.ts"

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
