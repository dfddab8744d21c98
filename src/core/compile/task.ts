// One task definition, its defaults already merged, becomes a node. The graph (upstream, downstream, needs) comes after.

import type { TaskDefinition } from "../model/definition.ts"
import { toText } from "../expressions/expressions.ts"
import { FUNCTION_EXECUTOR, FUNCTION_NAME_HINT, isFunctionName } from "../model/function.ts"
import { QUEUE_NAME, QUEUE_NAME_HINT } from "../model/queue-name.ts"
import type { JsonObject } from "../model/json.ts"
import { nearest } from "../model/nearest.ts"
import { type Path, pathText } from "../model/problems.ts"
import { CPU_HINT, MEMORY_HINT, parseCpu, parseDuration, parseMemory, DURATION_HINT } from "../model/quantities.ts"
import {
  BUILTIN_EXECUTORS,
  type EnvValue,
  GROUP_EXECUTOR,
  type HookEvent,
  type Node,
  type SecretField,
  type Template,
} from "../model/workflow.ts"
import { WAITING_EXECUTORS } from "../model/waiting-on.ts"
import { compileCommand } from "./command.ts"
import type { Context, ExpressionSite } from "./context.ts"
import {
  builtinRule,
  type ExecutorRule,
  executorsTaking,
  FUNCTION_RULE,
  GROUP_FIELDS,
  RUN_FIELDS,
  type RunField,
  TEMPLATE_FIELDS,
  UNKNOWN_RULE,
} from "./executors.ts"
import { compileFan } from "./fan.ts"
import { envNameProblem, quote } from "./names.ts"
import { compileRetry } from "./retry.ts"
import { extractSecrets } from "./secrets.ts"
import type { NameScope } from "./name-scope.ts"
import { outputSchema } from "./schemas.ts"

export interface TaskSource {
  name: string
  /** Of the node's own place among the workflow's. */
  index: number
  group: number | null
  hook: HookEvent | null
  path: Path
  /** As written: what is told about is what the author wrote there. */
  own: TaskDefinition
  merged: TaskDefinition
  scope: NameScope
  env: { [name: string]: EnvValue }
  types: { [name: string]: JsonObject }
}

/** Executors that the engine itself waits for; a gate looks at them first. */
const ENGINE_EXECUTORS: ReadonlySet<string> = new Set([...WAITING_EXECUTORS, GROUP_EXECUTOR])

export const compileTask = (context: Context, source: TaskSource): Node => {
  const { path, merged, index } = source
  const place: ExpressionSite = { node: index }
  const isGroup = merged.tasks !== undefined
  const named = merged.executor ?? "process"
  const called = isGroup ? null : functionCalled(context, source, named)
  const executor = isGroup ? GROUP_EXECUTOR : called === null ? named : FUNCTION_EXECUTOR
  const rule = isGroup ? GROUP_RULE : called === null ? executorRule(context, source, named) : FUNCTION_RULE
  if (isGroup) checkGroup(context, source)
  else if (called === null) checkFields(context, source, named, rule)

  const fan = compileFan(context, source)
  const takes = (field: RunField): boolean => rule.takes.includes(field)
  const condition = merged.if === undefined ? null : context.expression(String(merged.if), [...path, "if"], place, false)
  const key = (text: string, field: Path): string | null => context.expression(text, [...path, ...field], place, true)
  const cacheKey = merged.cache === undefined ? null : key(merged.cache.key, ["cache", "key"])
  const concurrencyKey = merged.concurrency_key === undefined ? null : key(merged.concurrency_key, ["concurrency_key"])
  const ownRule = merged.run_when ?? "all_success"

  return {
    name: source.name,
    group: source.group,
    hook: source.hook,
    executor,
    upstream: [],
    downstream: [],
    reads: [],
    rule: ownRule,
    ...(condition !== null && { if: condition }),
    ...(fan !== null && { fan }),
    gated:
      ownRule !== "all_success" ||
      condition !== null ||
      fan !== null ||
      cacheKey !== null ||
      concurrencyKey !== null ||
      ENGINE_EXECUTORS.has(executor),
    ...(merged.command !== undefined &&
      takes("command") && { command: compileCommand(context, merged.command, [...path, "command"], place) }),
    ...literals(context, merged, path, takes),
    ...(called !== null && { function: called }),
    ...compileFields(context, merged, path, place, takes),
    ...(merged.input !== undefined && { input: asMap(context.template(merged.input, [...path, "input"], place)) }),
    env: { ...source.env, ...compileEnv(context, merged.env ?? {}, [...path, "env"], place) },
    ...(merged.working_dir !== undefined && {
      workingDir: context.template(merged.working_dir, [...path, "working_dir"], place),
    }),
    ...compileResources(context, merged, path),
    retry: compileRetry(context, merged, path),
    lostRetries: merged.lost_retries ?? 3,
    timeoutMs: compileDuration(context, merged.timeout, [...path, "timeout"]) ?? rule.timeoutMs,
    ...(merged.timeout !== undefined && deferTimeout(merged)),
    startTimeoutMs: compileDuration(context, merged.start_timeout, [...path, "start_timeout"]) ?? rule.startTimeoutMs,
    ...(merged.concurrency !== undefined && { concurrency: merged.concurrency }),
    ...(concurrencyKey !== null && { concurrencyKey }),
    queue: compileQueue(context, merged.queue, path),
    labels: [...new Set(merged.labels ?? [])].sort(),
    priority: merged.priority ?? null,
    ...(cacheKey !== null && {
      cache: { key: cacheKey, ttlMs: compileDuration(context, merged.cache!.ttl, [...path, "cache", "ttl"]) ?? null },
    }),
    ...outputSchema(context, merged.output, source.types, [...path, "output"]),
  }
}

// -- executors -------------------------------------------------------------------------------------------------------------------

const NODE_NEEDS = 'executor "node" needs file, or function alone: the name of a function that a worker registers'

const GROUP_RULE: ExecutorRule = { takes: [], needs: [], timeoutMs: null, startTimeoutMs: null }

/**
 * The registered function that the task calls: `executor: node` with `function` alone, or its name in place of an executor's. A name
 * that looks like a slip of the pen, or comes with fields that belong to an executor, is none.
 */
const functionCalled = (context: Context, { own, merged, path }: TaskSource, executor: string): string | null => {
  if (builtinRule(executor) === undefined) {
    const fits = isFunctionName(executor) && nearest(executor, BUILTIN_EXECUTORS) === undefined
    return fits && misfitsOf(own, FUNCTION_RULE).length === 0 ? executor : null
  }
  if (executor !== "node" || merged.file !== undefined || merged.function === undefined) return null
  if (misfitsOf(own, FUNCTION_RULE).some((field) => field !== "function")) return null
  const name = context.literal(merged.function, [...path, "function"])
  if (!isFunctionName(name)) {
    context.problems.add([...path, "function"], `${quote(name)} is no name of a registered function: ${FUNCTION_NAME_HINT}`)
  }
  return name
}

const misfitsOf = (own: TaskDefinition, rule: ExecutorRule): RunField[] =>
  RUN_FIELDS.filter((field) => own[field] !== undefined && !rule.takes.includes(field))

const executorRule = (context: Context, { own, path }: TaskSource, executor: string): ExecutorRule => {
  const builtin = builtinRule(executor)
  if (builtin !== undefined) return builtin
  const near = nearest(executor, BUILTIN_EXECUTORS)
  const misfits = misfitsOf(own, FUNCTION_RULE)
  let message = `there is no executor ${quote(executor)}; there are ${BUILTIN_EXECUTORS.join(", ")}`
  if (isFunctionName(executor)) {
    if (misfits.length === 0) {
      message += `; a function registered under that name is called by executor: node and function: ${executor}`
    } else if (near === undefined) {
      message += `; a function registered under that name takes input, and no ${misfits.join(", ")}`
    }
  }
  context.problems.add([...path, "executor"], message, near)
  return UNKNOWN_RULE
}

const checkGroup = (context: Context, { own, path }: TaskSource): void => {
  for (const field of Object.keys(own)) {
    if (GROUP_FIELDS.has(field)) continue
    context.problems.addKey([...path, field], `a group takes no ${field}; set it on the tasks in it`)
  }
}

/** A field in `defaults` that does not suit this executor is left out in silence; one of the task's own is a mistake. */
const checkFields = (context: Context, { own, merged, path }: TaskSource, executor: string, rule: ExecutorRule): void => {
  // What its profile gives it is known elsewhere.
  if (merged.worker !== undefined && context.options.profiles === undefined) return
  const misfits = misfitsOf(own, rule)
  for (const field of misfits) {
    const others = executorsTaking(field)
    const hint = others.length === 0 ? "" : `; it belongs to ${others.join(", ")}`
    context.problems.addKey([...path, field], `executor ${quote(executor)} takes no ${field}${hint}`)
  }
  if (misfits.length > 0 || context.options.incomplete?.has(pathText(path)) === true) return
  if (executor === "sleep" && (merged.duration === undefined) === (merged.until === undefined)) {
    context.problems.addKey(path, `executor "sleep" needs either duration or until`)
  }
  const missing = rule.needs.filter((field) => merged[field] === undefined)
  if (missing.length === 0) return
  const nothing = own.executor === undefined && !RUN_FIELDS.some((field) => own[field] !== undefined)
  if (nothing)
    context.problems.addKey(path, "has nothing to run: give it a command, tasks, or another executor with its fields")
  else if (executor === "node") context.problems.addKey(path, NODE_NEEDS)
  else context.problems.addKey(path, `executor ${quote(executor)} needs ${missing.join(", ")}`)
}

// -- fields ----------------------------------------------------------------------------------------------------------------------

const literals = (
  context: Context,
  merged: TaskDefinition,
  path: Path,
  takes: (field: RunField) => boolean,
): Pick<Node, "file" | "function" | "image" | "runAs" | "scriptDir" | "worker"> => {
  const literal = (field: "file" | "function" | "image" | "run_as" | "script_dir" | "worker"): string | undefined =>
    merged[field] === undefined ? undefined : context.literal(merged[field], [...path, field])
  if (merged.file !== undefined && (merged.file.startsWith("/") || merged.file.split(/[\\/]/).includes(".."))) {
    context.problems.add([...path, "file"], "must be a path below the definition's own folder: it is stored with the workflow")
  }
  const file = takes("file") ? literal("file") : undefined
  const name = takes("function") ? literal("function") : undefined
  const image = takes("image") ? literal("image") : undefined
  const runAs = literal("run_as")
  const scriptDir = literal("script_dir")
  const worker = literal("worker")
  if (worker !== undefined) checkProfile(context, worker, [...path, "worker"])
  return {
    ...(file !== undefined && { file }),
    ...(name !== undefined && { function: name }),
    ...(image !== undefined && { image }),
    ...(runAs !== undefined && { runAs }),
    ...(scriptDir !== undefined && { scriptDir }),
    ...(worker !== undefined && { worker }),
  }
}

const checkProfile = ({ options: { profiles }, problems }: Context, name: string, path: Path): void => {
  if (profiles === undefined || Object.hasOwn(profiles, name)) return
  const names = Object.keys(profiles)
  const there = names.length === 0 ? "none is set" : `there are ${names.join(", ")}`
  problems.add(path, `there is no worker profile ${quote(name)}; ${there} (worker_profiles in ork.yaml)`, nearest(name, names))
}

const compileFields = (
  context: Context,
  merged: TaskDefinition,
  path: Path,
  place: ExpressionSite,
  takes: (field: RunField) => boolean,
): Pick<Node, "fields" | "secretFields"> => {
  const fields: Node["fields"] = {}
  const secretFields: SecretField[] = []
  for (const field of TEMPLATE_FIELDS) {
    const value = merged[field]
    if (value === undefined || !takes(field)) continue
    const { rest, secrets } = extractSecrets(context, field, value, [...path, field])
    fields[field] = context.template(rest, [...path, field], place)
    secretFields.push(...secrets)
  }
  const duration = fields["duration"]
  if (duration !== undefined && "lit" in duration) compileDuration(context, merged.duration, [...path, "duration"], 0)
  const until = fields["until"]
  if (until !== undefined && "lit" in until && Number.isNaN(Date.parse(toText(until.lit)))) {
    context.problems.add([...path, "until"], "must be an instant such as 2026-01-31T10:00:00Z")
  }
  const method = fields["method"]
  if (method !== undefined && "lit" in method && !/^[A-Za-z]{3,20}$/.test(toText(method.lit))) {
    context.problems.add([...path, "method"], "must be an HTTP method such as GET or POST")
  }
  const { time } = merged.slurm ?? {}
  if (time !== undefined && !isExpression(time)) compileDuration(context, time, [...path, "slurm", "time"])
  const { ttl } = merged.kubernetes ?? {}
  if (ttl !== undefined && !isExpression(ttl)) compileDuration(context, ttl, [...path, "kubernetes", "ttl"], 0)
  if (merged.executor === "cloudrun" && typeof merged.command === "string" && merged.cloudrun?.exec !== true) {
    const message = "must be a list of arguments for the program of the job, unless cloudrun.exec is true"
    context.problems.add([...path, "command"], message)
  }
  const exec = merged.executor === "cloudrun" ? merged.cloudrun?.exec : merged.kubernetes?.exec
  const far = merged.executor === "kubernetes" || merged.executor === "cloudrun"
  if (far && exec !== true && [merged.command ?? ""].flat().some((text) => text.includes("ORK_UPSTREAM"))) {
    const message = `has no $ORK_UPSTREAM in a container of ${merged.executor}: set ${merged.executor}.exec to true, or take what is needed of it by \`input\``
    context.problems.add([...path, "command"], message)
  }
  const shm = merged.docker?.shm_size
  if (shm !== undefined && !isExpression(shm) && parseMemory(shm) === null) {
    context.problems.add([...path, "docker", "shm_size"], `must be ${MEMORY_HINT}`)
  }
  const maxBody = merged.http?.max_body
  if (maxBody !== undefined && parseMemory(maxBody) === null) {
    context.problems.add([...path, "http", "max_body"], `must be ${MEMORY_HINT}`)
  }
  return { fields, ...(secretFields.length > 0 && { secretFields }) }
}

/** The timeout that somebody set; a mistake in it was told already. */
const deferTimeout = ({ timeout }: TaskDefinition): Pick<Node, "deferTimeoutMs"> => {
  const ms = parseDuration(timeout)
  return ms === null ? {} : { deferTimeoutMs: ms }
}

/** Its value is not known yet. */
const isExpression = (value: unknown): boolean => typeof value === "string" && value.includes("${{")

const asMap = (template: Template): Template =>
  "lit" in template
    ? { map: Object.fromEntries(Object.entries(template.lit as JsonObject).map(([key, lit]) => [key, { lit }])) }
    : template

export const compileEnv = (
  context: Context,
  env: NonNullable<TaskDefinition["env"]>,
  path: Path,
  place: ExpressionSite,
): { [name: string]: EnvValue } => {
  const compiled: { [name: string]: EnvValue } = {}
  for (const [name, value] of Object.entries(env)) {
    const problem = envNameProblem(name)
    if (problem !== null) context.problems.addKey([...path, name], problem)
    else if (typeof value === "object" && value !== null)
      compiled[name] = { secret: context.literal(value.secret, [...path, name]) }
    else compiled[name] = { value: context.template(value, [...path, name], place) }
  }
  return compiled
}

const compileResources = (context: Context, { resources }: TaskDefinition, path: Path): Pick<Node, "resources"> => {
  if (resources === undefined) return {}
  const cpu = resources.cpu === undefined ? undefined : parseCpu(resources.cpu)
  const memory = resources.memory === undefined ? undefined : parseMemory(resources.memory)
  if (cpu === null) context.problems.add([...path, "resources", "cpu"], `must be ${CPU_HINT}`)
  if (memory === null) context.problems.add([...path, "resources", "memory"], `must be ${MEMORY_HINT}`)
  return { resources: { ...(typeof cpu === "number" && { cpu }), ...(typeof memory === "number" && { memoryBytes: memory }) } }
}

const compileQueue = (context: Context, queue: string | undefined, path: Path): string => {
  if (queue !== undefined && !QUEUE_NAME.test(queue)) {
    context.problems.add([...path, "queue"], `${quote(queue)} is not a valid queue name: ${QUEUE_NAME_HINT}`)
  }
  return queue ?? "default"
}

/** A duration in milliseconds, more than `over`; undefined when there is none or it is not one (then that is told). */
export const compileDuration = (context: Context, value: unknown, path: Path, over = 1): number | undefined => {
  if (value === undefined) return undefined
  const ms = parseDuration(value)
  if (ms !== null && ms >= over) return ms
  context.problems.add(path, `must be a duration${over > 0 ? " of more than 0" : ""}: ${DURATION_HINT}`)
  return undefined
}
