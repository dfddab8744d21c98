// Finds what happened in none of the simulated runs.

import type { RunStatus } from "../../core/model/status.ts"
import { type CompiledWorkflow, GROUP_EXECUTOR, type HookEvent, type Node } from "../../core/model/workflow.ts"
import type { Finding } from "./findings.ts"
import type { Tally } from "./tally.ts"

/** Hooks that are due at the end of a run. */
const EVENTS_OF_STATUS: Record<RunStatus, readonly HookEvent[]> = {
  pending: [],
  running: [],
  success: ["on_success", "on_exit"],
  failed: ["on_failure", "on_exit"],
  cancelled: ["on_cancel", "on_exit"],
}

/** Returns the tasks that never ran, and the hooks that never fired although there was a reason. */
export const neverFindings = (workflow: CompiledWorkflow, tally: Tally): Finding[] =>
  workflow.nodes.flatMap((node) => {
    if (node.executor === GROUP_EXECUTOR || tally.ran.has(node.name)) return []
    return node.hook === null ? [neverRuns(node)] : neverFires(node, node.hook, tally)
  })

const neverRuns = ({ name }: Node): Finding => ({
  kind: "never_runs",
  task: name,
  message: "ran in none of the runs, with and without failures",
  advice: "its `if` or `run_when`, or a case whose outputs let it run",
  losesWork: false,
})

const neverFires = ({ name }: Node, hook: HookEvent, { statuses, hasFailedTask }: Tally): Finding[] => {
  const isDue = Object.entries(EVENTS_OF_STATUS).some(
    ([status, events]) => (statuses[status] ?? 0) > 0 && events.includes(hook),
  )
  const isHidden = hook === "on_failure" && hasFailedTask
  if (!isDue && !isHidden) return []
  const message = isDue
    ? "never fired, although runs ended in the way that it is for"
    : "never fires: tasks failed, but none of them failed the run"
  const advice = isDue ? "the `if` of the hook" : "no `continue_on_error` for tasks whose failure matters"
  return [{ kind: "hook_never_fires", task: name, message, advice, losesWork: false }]
}
