// Compiles the fields of a task that its executor reads, and checks values that are known before the task runs.

import type { TaskDefinition } from "../../model/definition.ts"
import { languageOf } from "../../model/function.ts"
import { toText } from "../../expressions/expressions.ts"
import { nearest } from "../../values/nearest.ts"
import { omitUndefined } from "../../values/omit-undefined.ts"
import type { Path } from "../../model/problems.ts"
import { MEMORY_HINT, parseMemory } from "../../values/quantities.ts"
import type { Node, SecretField } from "../../model/workflow.ts"
import type { CompileContext, ExpressionSite } from "../context/context.ts"
import { compileDuration } from "../context/duration.ts"
import { type ExecutorRule, TEMPLATE_FIELDS } from "./executors.ts"
import { quote } from "../context/names.ts"
import { extractSecrets } from "./secrets.ts"
import type { TaskSource } from "./task.ts"

type LiteralField = "file" | "function" | "interpreter" | "image" | "env_file" | "run_as" | "script_dir" | "worker"

/** Compiles the fields that must not contain expressions. */
export const compileLiterals = (
  context: CompileContext,
  { merged, path }: TaskSource,
  { accepts }: ExecutorRule,
): Pick<
  Node,
  "file" | "function" | "interpreter" | "requirements" | "image" | "envFile" | "runAs" | "scriptDir" | "worker"
> => {
  const literal = (field: LiteralField): string | undefined =>
    merged[field] === undefined ? undefined : context.literal(merged[field], [...path, field])
  checkInsideFolder(context, merged.file, [...path, "file"])
  const file = accepts.includes("file") ? literal("file") : undefined
  if (file !== undefined && accepts.includes("command") && languageOf(file) === null) {
    context.problems.add(
      [...path, "file"],
      "must be a file with functions in Python (.py), TypeScript or JavaScript (.ts, .js)",
    )
  }
  const functionName = accepts.includes("function") ? literal("function") : undefined
  const interpreter = accepts.includes("interpreter") ? literal("interpreter") : undefined
  const requirements = accepts.includes("requirements") ? compileRequirements(context, merged, path) : undefined
  const image = accepts.includes("image") ? literal("image") : undefined
  checkInsideFolder(context, merged.env_file, [...path, "env_file"])
  const envFile = literal("env_file")
  const runAs = literal("run_as")
  const scriptDir = literal("script_dir")
  const worker = literal("worker")
  if (worker !== undefined) checkProfile(context, worker, [...path, "worker"])
  return omitUndefined({ file, function: functionName, interpreter, requirements, image, envFile, runAs, scriptDir, worker })
}

const checkInsideFolder = ({ problems }: CompileContext, file: string | undefined, path: Path): void => {
  if (file === undefined || !(file.startsWith("/") || file.split(/[\\/]/).includes(".."))) return
  problems.add(path, "must be a path inside the folder of the definition, whose files are stored with the workflow")
}

const compileRequirements = (context: CompileContext, { requirements }: TaskDefinition, path: Path): Node["requirements"] => {
  const at = [...path, "requirements"]
  if (Array.isArray(requirements)) return requirements.map((line, i) => context.literal(line, [...at, i]))
  checkInsideFolder(context, requirements, at)
  return requirements === undefined ? undefined : context.literal(requirements, at)
}

const checkProfile = ({ options: { profiles }, problems }: CompileContext, name: string, path: Path): void => {
  if (profiles === undefined || Object.hasOwn(profiles, name)) return
  const names = Object.keys(profiles)
  const known = names.length === 0 ? "none is configured" : `the profiles are ${names.join(", ")}`
  const message = `there is no worker profile ${quote(name)}; ${known} (worker_profiles in ork.yaml)`
  problems.add(path, message, nearest(name, names))
}

/** Compiles the fields that may contain expressions. */
export const compileFields = (
  context: CompileContext,
  { merged, path }: TaskSource,
  rule: ExecutorRule,
  site: ExpressionSite,
): Pick<Node, "fields" | "secretFields"> => {
  const fields: Node["fields"] = {}
  const secretFields: SecretField[] = []
  for (const field of TEMPLATE_FIELDS) {
    const value = merged[field]
    if (value === undefined || !rule.accepts.includes(field) || (field === "until" && merged.executor === "wait")) continue
    const { rest, secrets } = extractSecrets(context, field, value, [...path, field])
    fields[field] = context.template(rest, [...path, field], site)
    secretFields.push(...secrets)
  }
  checkLiteralFields(context, fields, path)
  checkOptions(context, merged, path)
  checkContainerCommand(context, merged, path)
  return { fields, ...(secretFields.length > 0 && { secretFields }) }
}

/** Checks fields of executors whose value contains no expression. */
const checkLiteralFields = (context: CompileContext, fields: Node["fields"], path: Path): void => {
  const { duration, until, method } = fields
  if (duration !== undefined && "lit" in duration) compileDuration(context, duration.lit, [...path, "duration"], 0)
  if (until !== undefined && "lit" in until && Number.isNaN(Date.parse(toText(until.lit)))) {
    context.problems.add([...path, "until"], "must be an instant such as 2026-01-31T10:00:00Z")
  }
  if (method !== undefined && "lit" in method && !/^[A-Za-z]{3,20}$/.test(toText(method.lit))) {
    context.problems.add([...path, "method"], "must be an HTTP method such as GET or POST")
  }
}

/** Checks options of single executors (`slurm: { … }`), also for tasks with another executor. */
const checkOptions = (context: CompileContext, { slurm, kubernetes, docker, http }: TaskDefinition, path: Path): void => {
  const memory = (value: unknown, at: Path): void => {
    if (parseMemory(value) === null) context.problems.add([...path, ...at], `must be ${MEMORY_HINT}`)
  }
  if (isLiteral(slurm?.time)) compileDuration(context, slurm.time, [...path, "slurm", "time"])
  if (isLiteral(kubernetes?.ttl)) compileDuration(context, kubernetes.ttl, [...path, "kubernetes", "ttl"], 0)
  if (isLiteral(docker?.shm_size)) memory(docker.shm_size, ["docker", "shm_size"])
  if (http?.max_body !== undefined) memory(http.max_body, ["http", "max_body"])
}

/** Checks commands of clusters whose containers do not run `ork exec`. */
const checkContainerCommand = (context: CompileContext, merged: TaskDefinition, path: Path): void => {
  const { executor, command = "" } = merged
  if (executor !== "kubernetes" && executor !== "cloudrun") return
  if (merged[executor]?.exec === true || merged.file !== undefined) return
  if (executor === "cloudrun" && typeof merged.command === "string") {
    const message = "must be a list of arguments for the program of the job, unless cloudrun.exec is true"
    context.problems.add([...path, "command"], message)
  }
  if ([command].flat().some((text) => text.includes("ORK_UPSTREAM"))) {
    const message = `uses $ORK_UPSTREAM, which a container of ${executor} does not have; set ${executor}.exec to true, or pass the values through \`input\``
    context.problems.add([...path, "command"], message)
  }
}

/** Returns true for a value that is set and contains no expression. */
const isLiteral = <T>(value: T | undefined): value is T =>
  value !== undefined && !(typeof value === "string" && value.includes("${{"))
