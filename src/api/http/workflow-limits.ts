// Applies the limits of a caller to requests: to the workflow or run that a path names, to a definition, and to events. Lists are limited
// by the store. To a caller, workflows and runs that it may not read do not exist.

import { toText } from "../../core/expressions/expressions.ts"
import type { LimitedWorkflow } from "../../core/rules/access/permissions.ts"
import { describeLimits } from "../../core/settings/workflow-limits.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { KeyScope } from "../../store/contract/keys.ts"
import type { Frame } from "../feed/event-feed.ts"
import { findRun } from "./find-run.ts"
import type { Api } from "./ports.ts"
import { concernsOf, type Route } from "./route.ts"
import { ApiError, noRun, noWorkflow } from "../shared/errors.ts"
import { ExpiringCache } from "../shared/expiring-cache.ts"
import { type Caller, may } from "../auth/auth.ts"

const forbidden = ({ grants }: Caller, action: string): ApiError => {
  const limits = grants.flatMap((grant) => grant.limits ?? []).map(describeLimits)
  return new ApiError("FORBIDDEN", `this key or user may not ${action}; it is limited to the workflows ${limits.join("; ")}`)
}

const workflowOf = async (api: Api, name: string): Promise<LimitedWorkflow> => ({
  name,
  tags: (await api.store.getTags(name)) ?? [],
})

/** Checks the limits of a caller that has the scope of the route for some workflows only. `params`: of the path. */
export const checkLimits = async (
  api: Api,
  route: Route,
  caller: Caller,
  params: () => { [name: string]: string },
): Promise<void> => {
  const scope = route.scope!
  switch (concernsOf(route)) {
    case "workflow": {
      const name = params()["name"]!
      return checkWorkflow(caller, scope, await workflowOf(api, name), () => noWorkflow(name))
    }
    case "run": {
      const id = params()["id"]!
      const run = await findRun(api, id)
      return checkWorkflow(caller, scope, await workflowOf(api, run.workflow), () => noRun(id))
    }
    case "list":
    case "definition":
    case "caller":
      return
    default:
      throw forbidden(caller, `${route.method} ${route.path}`)
  }
}

const checkWorkflow = (caller: Caller, scope: KeyScope, workflow: LimitedWorkflow, missing: () => ApiError): void => {
  if (!may(caller, "read", workflow)) throw missing()
  if (!may(caller, scope, workflow)) {
    throw new ApiError("FORBIDDEN", `the scope ${scope} for the workflow ${workflow.name} is required`)
  }
}

/**
 * Checks that a caller may deploy a definition: under its name and tags, in place of the workflow of that name, and that it may start the
 * workflows that the definition starts, and read those that it follows or waits for.
 */
export const checkDefinition = async (api: Api, caller: Caller, workflow: CompiledWorkflow): Promise<void> => {
  if (may(caller, "author", null)) return
  const { name, tags, nodes, triggers = [] } = workflow
  const before = await api.store.getTags(name)
  if (!may(caller, "author", { name, tags }) || (before !== null && !may(caller, "author", { name, tags: before }))) {
    throw forbidden(caller, `deploy the workflow ${name} with the tags ${tags.join(", ") || "none"}`)
  }
  for (const node of nodes) {
    const named = node.fields["workflow"]
    if (named === undefined) continue
    const other = "lit" in named ? toText(named.lit) : null
    const waits = node.executor === "wait"
    if (other !== null && may(caller, waits ? "read" : "trigger", await workflowOf(api, other))) continue
    const which = other === null ? "a workflow by an expression" : `the workflow ${other}`
    throw forbidden(caller, `deploy a task that ${waits ? "waits for" : "starts"} ${which}`)
  }
  for (const upstream of triggers.flatMap((trigger) => ("after" in trigger ? trigger.after : []))) {
    if (!may(caller, "read", await workflowOf(api, upstream)))
      throw forbidden(caller, `deploy a trigger that follows the workflow ${upstream}`)
  }
}

const MAX_CACHED = 10_000
/** Time after which a change of a workflow's tags takes effect on open streams. */
const CACHED_MS = 10_000

/** Returns a filter of the events that a caller may see; null: all. Events of jobs belong to no workflow. */
export const eventFilter = (api: Api, caller: Caller): ((frames: readonly Frame[]) => Promise<Frame[]>) | null => {
  if (may(caller, "read", null)) return null
  const runs = new ExpiringCache<boolean>(MAX_CACHED, CACHED_MS, () => api.clock.monotonic())
  const isVisible = async (runId: RunId): Promise<boolean> => {
    const known = runId === "" ? false : runs.get(runId)
    if (known !== undefined) return known
    const run = await api.store.getRun(runId)
    const visible = run !== null && may(caller, "read", await workflowOf(api, run.workflow))
    runs.set(runId, visible)
    return visible
  }
  return async (frames) => {
    const visible: Frame[] = []
    for (const frame of frames) if (await isVisible(frame.event.runId)) visible.push(frame)
    return visible
  }
}
