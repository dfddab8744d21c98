// Compiles a task, already merged with its defaults, to a node. `upstream`, `downstream` and `reads` are set later.

import type { TaskDefinition } from "../../model/definition.ts"
import type { Json, JsonObject } from "../../values/json.ts"
import { omitUndefined } from "../../values/omit-undefined.ts"
import type { Path } from "../../model/problems.ts"
import { CPU_HINT, MEMORY_HINT, parseCpu, parseDuration, parseMemory } from "../../values/quantities.ts"
import { QUEUE_NAME, QUEUE_NAME_HINT } from "../../model/names.ts"
import { type EnvValue, GROUP_EXECUTOR, type HookEvent, type Node, type Template } from "../../model/workflow.ts"
import { WAITING_EXECUTORS } from "../../model/waiting-on.ts"
import { compileArtifacts } from "./artifacts.ts"
import { checkContainerEntrypoint, compileCommand, type CommandSource } from "./command.ts"
import type { CompileContext, ExpressionSite } from "../context/context.ts"
import { compileDuration } from "../context/duration.ts"
import { compileFields, compileLiterals } from "./executor-fields.ts"
import { compileFan } from "./fan.ts"
import { envNameProblem, quote } from "../context/names.ts"
import { loadsCode } from "../code/interpreters.ts"
import { compileNotify } from "../context/notify.ts"
import { compileRetry } from "./retry.ts"
import { compileOutput } from "./schemas.ts"
import { variableMessage } from "../code/shell.ts"
import type { NameScope } from "../context/name-scope.ts"
import { selectExecutor } from "./select-executor.ts"
import { compileWait } from "./wait.ts"

export interface TaskSource {
  name: string
  /** Index of the node. */
  index: number
  group: number | null
  hook: HookEvent | null
  path: Path
  /** Fields as the author wrote them. */
  own: TaskDefinition
  /** Fields including defaults and profile. */
  merged: TaskDefinition
  scope: NameScope
  /** `env` that the task inherits. */
  env: { [name: string]: EnvValue }
  types: { [name: string]: JsonObject }
}

/** Executors that the engine runs itself: the gate begins their attempts. */
const ENGINE_EXECUTORS: ReadonlySet<string> = new Set([...WAITING_EXECUTORS, GROUP_EXECUTOR])

export const compileTask = (context: CompileContext, source: TaskSource): Node => {
  const { path, merged } = source
  const site: ExpressionSite = { node: source.index }
  const { executor: selected, rule, functionName } = selectExecutor(context, source)
  const waits = selected === "wait"
  // The command of a wait runs where every other command runs.
  const executor = waits && merged.command !== undefined ? "process" : selected
  const conditions = compileConditions(context, source, site)
  const template = (value: Json | undefined, field: string): Template | undefined =>
    value === undefined ? undefined : context.template(value, [...path, field], site)
  const env = { ...source.env, ...compileEnv(context, merged.env ?? {}, [...path, "env"], site) }
  return omitUndefined({
    name: source.name,
    group: source.group,
    hook: source.hook,
    executor,
    upstream: [],
    downstream: [],
    reads: [],
    ...conditions,
    gated: conditions.rule !== "all_success" || Object.keys(conditions).length > 1 || ENGINE_EXECUTORS.has(executor),
    command: rule.accepts.includes("command")
      ? compileTaskCommand(context, { path, site, own: source.own, merged, env })
      : undefined,
    ...compileLiterals(context, source, rule),
    ...(functionName !== null && { function: functionName }),
    ...compileFields(context, source, rule, site),
    input: asMap(template(merged.input, "input")),
    env,
    workingDir: template(merged.working_dir, "working_dir"),
    resources: compileResources(context, merged, path),
    retry: compileRetry(context, merged, path),
    lostRetries: merged.lost_retries ?? 3,
    ...(merged.continue_on_error === true && { continueOnError: true as const }),
    retryOn: merged.retry_on,
    skipOn: merged.skip_on,
    ...(waits && compileWait(context, source, site)),
    notify: merged.notify === undefined ? undefined : compileNotify(context, merged.notify, [...path, "notify"], "task"),
    deadlineMs: compileDeadline(context, source),
    timeoutMs: compileDuration(context, merged.timeout, [...path, "timeout"]) ?? rule.timeoutMs,
    // The author's timeout limits deferred work too; the executor's default does not.
    deferTimeoutMs: parseDuration(merged.timeout) ?? undefined,
    defer: merged.defer === true && rule.accepts.includes("defer") ? { hosts: merged.defer_hosts ?? [] } : undefined,
    startTimeoutMs: compileDuration(context, merged.start_timeout, [...path, "start_timeout"]) ?? rule.startTimeoutMs,
    concurrency: merged.concurrency,
    queue: compileQueue(context, merged.queue, path),
    labels: [...new Set(merged.labels ?? [])].sort(),
    priority: merged.priority ?? null,
    ...compileOutput(context, source, rule),
    artifacts: compileArtifacts(context, source, rule, site),
  })
}

const compileTaskCommand = (context: CompileContext, source: CommandSource): Node["command"] => {
  const { command } = source.merged
  if (command !== undefined) return compileCommand(context, command, source)
  checkContainerEntrypoint(context, source)
  return undefined
}

/** Compiles the fields that the gate evaluates. Any of them, beside a plain rule, makes the node gated. */
const compileConditions = (
  context: CompileContext,
  source: TaskSource,
  site: ExpressionSite,
): Pick<Node, "rule" | "if" | "fan" | "label" | "cache" | "concurrencyKey"> => {
  const { path, merged } = source
  const fan = compileFan(context, source)
  const condition = merged.if === undefined ? null : context.expression(String(merged.if), [...path, "if"], site)
  const key = (text: string, field: Path): string | null => context.textExpression(text, [...path, ...field], site)
  const cacheKey = merged.cache === undefined ? null : key(merged.cache.key, ["cache", "key"])
  const concurrencyKey = merged.concurrency_key === undefined ? null : key(merged.concurrency_key, ["concurrency_key"])
  if (merged.label !== undefined && fan === null) {
    context.problems.add([...path, "label"], "label names the instances of a fan-out: it needs foreach or parallel")
  }
  const label = merged.label === undefined || fan === null ? null : key(merged.label, ["label"])
  const ttlMs = compileDuration(context, merged.cache?.ttl, [...path, "cache", "ttl"]) ?? null
  return {
    rule: merged.run_when ?? "all_success",
    ...(condition !== null && { if: condition }),
    ...(fan !== null && { fan }),
    ...(label !== null && { label }),
    ...(concurrencyKey !== null && { concurrencyKey }),
    ...(cacheKey !== null && { cache: { key: cacheKey, ttlMs } }),
  }
}

/** Makes an input without expressions a map of literals, so that `input` is always a map. */
const asMap = (template: Template | undefined): Template | undefined =>
  template !== undefined && "lit" in template
    ? { map: Object.fromEntries(Object.entries(template.lit as JsonObject).map(([key, lit]) => [key, { lit }])) }
    : template

export const compileEnv = (
  context: CompileContext,
  env: NonNullable<TaskDefinition["env"]>,
  path: Path,
  site: ExpressionSite,
): { [name: string]: EnvValue } => {
  const compiled: { [name: string]: EnvValue } = {}
  for (const [name, value] of Object.entries(env)) {
    const at = [...path, name]
    const problem = envNameProblem(name)
    if (problem !== null) context.problems.addKey(at, problem)
    else if (typeof value === "object" && value !== null) compiled[name] = { secret: context.literal(value.secret, at) }
    else {
      const template = context.template(value, at, site)
      if (loadsCode(name) && !("lit" in template)) context.problems.add(at, `an expression ${variableMessage(name)}`)
      compiled[name] = { value: template }
    }
  }
  return compiled
}

/** Compiles the deadline. A hook starts after the run has closed: only a deadline that it inherits is left out silently. */
const compileDeadline = (context: CompileContext, { own, merged, hook, path }: TaskSource): number | undefined => {
  const at = [...path, "deadline"]
  if (hook === null) return compileDuration(context, merged.deadline, at)
  if (own.deadline !== undefined)
    context.problems.addKey(
      at,
      "is not for hooks: a deadline counts from the start of the run, and a hook starts after its end",
    )
  return undefined
}

const compileResources = (context: CompileContext, { resources }: TaskDefinition, path: Path): Node["resources"] => {
  if (resources === undefined) return undefined
  const cpu = resources.cpu === undefined ? undefined : parseCpu(resources.cpu)
  const memory = resources.memory === undefined ? undefined : parseMemory(resources.memory)
  if (cpu === null) context.problems.add([...path, "resources", "cpu"], `must be ${CPU_HINT}`)
  if (memory === null) context.problems.add([...path, "resources", "memory"], `must be ${MEMORY_HINT}`)
  return omitUndefined({ cpu: cpu ?? undefined, memoryBytes: memory ?? undefined })
}

const compileQueue = (context: CompileContext, queue: string | undefined, path: Path): string => {
  if (queue !== undefined && !QUEUE_NAME.test(queue)) {
    context.problems.add([...path, "queue"], `${quote(queue)} is not a valid queue name: ${QUEUE_NAME_HINT}`)
  }
  return queue ?? "default"
}
