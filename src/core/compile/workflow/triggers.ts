// Compiles `triggers`: what starts runs besides schedules and the webhook.

import type { TriggerDefinition, WorkflowDefinition } from "../../model/definition.ts"
import { omitUndefined } from "../../values/omit-undefined.ts"
import type { Path } from "../../model/problems.ts"
import type { AfterTrigger, ParamSpec, PathTrigger, TriggerSpec } from "../../model/workflow.ts"
import { PATH_PATTERN_HINT, parsePathPattern } from "../../settings/path-pattern.ts"
import type { CompileContext } from "../context/context.ts"
import { compileDuration } from "../context/duration.ts"
import { checkGivenParams } from "./given-params.ts"
import { quote, workflowNameProblem } from "../context/names.ts"

const MAX_TRIGGERS = 100
const DEFAULT_EVERY_MS = 30_000
const SHORTEST_EVERY_MS = 1000

/** Returns undefined without triggers. */
export const compileTriggers = (
  context: CompileContext,
  { name, triggers }: Pick<WorkflowDefinition, "name" | "triggers">,
  params: readonly ParamSpec[],
): TriggerSpec[] | undefined => {
  const list = [triggers ?? []].flat()
  if (list.length === 0) return undefined
  if (list.length > MAX_TRIGGERS) context.problems.add(["triggers"], `has more than ${MAX_TRIGGERS} entries`)
  return list.slice(0, MAX_TRIGGERS).map((trigger, i) => {
    const at = Array.isArray(triggers) ? ["triggers", i] : ["triggers"]
    checkGivenParams(context, { given: trigger.params ?? {}, path: at, params })
    return compileOne(context, trigger, at, name)
  })
}

const compileOne = (context: CompileContext, trigger: TriggerDefinition, at: Path, name: string): TriggerSpec => {
  const { after, path } = trigger
  if ((after === undefined) === (path === undefined)) context.problems.add(at, "needs either after or path")
  const params = trigger.params && context.template(trigger.params, [...at, "params"], { node: null })
  return path === undefined
    ? omitUndefined({ ...compileAfter(context, trigger, at, name), params })
    : omitUndefined({ ...compilePath(context, trigger, at, path), params })
}

const compileAfter = (
  { problems }: CompileContext,
  { after = [], when = "all", every }: TriggerDefinition,
  at: Path,
  name: string,
): AfterTrigger => {
  const names = [after].flat()
  for (const [i, upstream] of names.entries()) {
    const problem = upstream === name ? "is this workflow itself; name other workflows" : workflowNameProblem(upstream)
    if (problem !== null) problems.add(Array.isArray(after) ? [...at, "after", i] : [...at, "after"], problem)
  }
  if (every !== undefined) problems.add([...at, "every"], "is for triggers with path")
  return { after: [...new Set(names)], when }
}

const compilePath = (context: CompileContext, { every, when }: TriggerDefinition, at: Path, path: string): PathTrigger => {
  const { problems } = context
  if (parsePathPattern(path) === null) problems.add([...at, "path"], `${quote(path)} must be ${PATH_PATTERN_HINT}`)
  if (when !== undefined) problems.add([...at, "when"], "is for triggers with after")
  const everyMs = compileDuration(context, every, [...at, "every"]) ?? DEFAULT_EVERY_MS
  if (everyMs < SHORTEST_EVERY_MS) problems.add([...at, "every"], "must be at least 1s")
  return { path, everyMs }
}
