// Puts the live view together: screen, estimate of earlier runs, last log lines. Loaded only on a terminal.

import type { Context } from "./backends.ts"
import type { Stores } from "./follow.ts"
import { printError } from "./output.ts"
import { LiveReporter } from "./progress/live-reporter.ts"
import type { RunView } from "./progress/model.ts"
import type { Reporter } from "./progress/reporter.ts"
import { Screen } from "./progress/screen.ts"
import { wantsColour } from "./style.ts"
import type { RunId } from "../core/ids.ts"
import { TaskLog } from "../objects/logs.ts"
import { attemptPrefix } from "../objects/objects.ts"

export const liveReporter = async (context: Context, stores: Stores, view: RunView, concurrency: number): Promise<Reporter> =>
  new LiveReporter({
    view,
    screen: new Screen(context.stdout, wantsColour(context.stdout, context.env)),
    clock: context.backends.clock,
    means: await stores.store.pastDurations(view.workflow.name),
    concurrency,
    lastLine: lastLines(stores, view),
    printWarning: (text) => printError(context, `ork: warning: ${text}`),
  })

/** Looks the attempt up once, then only reads its log. */
const lastLines = ({ store, objects }: Stores, view: RunView) => {
  const logs = new Map<string, TaskLog>()
  return async (task: string, path: string, attempt: number): Promise<string | null> => {
    const key = `${task}/${path}/${attempt}`
    let log = logs.get(key)
    if (log === undefined) {
      const row = await store.getTask({ runId: view.runId as RunId, name: task, path })
      if (row?.attemptId == null || row.attempt !== attempt) return null
      log = new TaskLog(objects, attemptPrefix(view.runId, task, row.attemptId))
      logs.set(key, log)
    }
    return (await log.tailLines(1))[0]?.line ?? null
  }
}
