// Builds the assignment of a claim: its input, environment, command, fields and folders, with every expression resolved.

import type { EngineOptions, Folders } from "../ports.ts"
import { objectPrefixOf } from "./claims.ts"
import { buildScope, visibleOutput } from "./expression-scope.ts"
import type { OutputReader } from "./outputs.ts"
import { readSecret } from "./secret.ts"
import { TaskFailure } from "./task-failure.ts"
import type { Callbacks } from "./callbacks.ts"
import type { Output } from "../../core/model/change.ts"
import { type ExpressionScope, toText } from "../../core/expressions/expressions.ts"
import { taskId } from "../../core/model/ids.ts"
import { isObject, type Json, type JsonObject } from "../../core/model/json.ts"
import { lastIndex, shortName } from "../../core/model/task-path.ts"
import type { CompiledWorkflow, Node, SecretField, Template } from "../../core/model/workflow.ts"
import type { Assignment } from "../../executors/executor.ts"
import type { Claim, TaskClaim } from "../../store/contract/store.ts"

/** Larger upstream outputs of a fan-out become files. */
const MERGE_LIMIT = 64 * 1024
/** Limit of an argument or variable; the kernel's is 128 KiB. */
const VALUE_LIMIT = 100 * 1024

type Options = Pick<EngineOptions, "evaluator" | "secret" | "maxOutputBytes" | "graceMs">

type Env = Assignment["env"]

export class AssignmentBuilder {
  readonly #options: Options
  readonly #outputs: OutputReader
  readonly #callbacks: Callbacks

  constructor(options: Options, outputs: OutputReader, callbacks: Callbacks) {
    this.#options = options
    this.#outputs = outputs
    this.#callbacks = callbacks
  }

  async build(claim: Claim, workflow: CompiledWorkflow, node: Node, folders: Folders): Promise<Assignment> {
    const templates = new Templates(this.#options, () => buildScope(this.#outputs, claim, workflow, node))
    const { input, upstreamDir } =
      claim.kind === "job"
        ? { input: claim.job.payload, upstreamDir: null }
        : await this.#input(claim, workflow, node, templates, folders)
    const { env, fields, secrets } = await this.#render(node, templates)
    const command = node.command === undefined ? null : await this.#command(node.command, templates, env)
    for (const [name, value] of Object.entries(env)) checkValue(`the value of ${name}`, value)
    const code = node.file === undefined || claim.kind === "job" ? null : await folders.code(claim, workflow.bundle ?? null)
    const wanted = node.workingDir === undefined ? null : toText(await templates.render(node.workingDir))
    return {
      ...this.#baseOf(claim, workflow, node),
      input,
      fields,
      command,
      env,
      workingDir: await folders.workingDir(claim, wanted),
      ...(code !== null && { code }),
      upstreamDir,
      secrets,
      ...(claim.kind !== "job" && node.defer !== undefined && { callback: () => this.#callbacks.environment(claim) }),
    }
  }

  /** Builds what an executor needs to find and stop the work of a claim: never rejects, and omits fields that cannot be evaluated. */
  async buildStop(claim: Claim, workflow: CompiledWorkflow, node: Node): Promise<Assignment> {
    const templates = new Templates(this.#options, () => buildScope(this.#outputs, claim, workflow, node))
    const fields: Assignment["fields"] = {}
    for (const [field, template] of Object.entries(node.fields)) {
      try {
        fields[field] = await templates.render(template)
      } catch {
        // The work may be found without it.
      }
    }
    const base = this.#baseOf(claim, workflow, node)
    return { ...base, input: null, fields, command: null, env: {}, workingDir: "/", upstreamDir: null, secrets: [] }
  }

  #baseOf(claim: Claim, workflow: CompiledWorkflow, node: Node): Base {
    return {
      ...identityOf(claim, node),
      attemptId: claim.attemptId,
      attempt: claim.attempt,
      workflow: workflow.name,
      task: node.name,
      node,
      prefix: objectPrefixOf(claim, node),
      maxOutputBytes: this.#options.maxOutputBytes,
      graceMs: this.#options.graceMs,
    }
  }

  /** Merges the item, then upstream outputs by name, then the task's own input: later values win. */
  async #input(
    claim: TaskClaim,
    workflow: CompiledWorkflow,
    node: Node,
    templates: Templates,
    folders: Folders,
  ): Promise<{ input: JsonObject; upstreamDir: string | null }> {
    const input: JsonObject = {}
    const large = new Map<string, Output>()
    if (node.fan?.foreach !== undefined) input["item"] = claim.item
    for (const index of node.upstream) {
      const name = shortName(workflow.nodes[index]!)
      const state = claim.reads.get(index)
      const output = state === undefined ? null : visibleOutput(workflow.nodes[index]!, state)
      if (node.fan !== undefined && output !== null && isLarge(output)) {
        large.set(name, output)
      } else {
        const value = this.#outputs.value(output)
        input[name] = value instanceof Promise ? await value : value
      }
    }
    if (node.input !== undefined) Object.assign(input, await templates.render(node.input))
    return { input, upstreamDir: large.size === 0 ? null : await folders.upstream(claim, large) }
  }

  /** Renders the environment and the executor's fields. `secrets`: the values of secrets in both. */
  async #render(node: Node, templates: Templates): Promise<Pick<Assignment, "env" | "fields" | "secrets">> {
    const env: Env = {}
    const fields: Assignment["fields"] = {}
    const secrets: string[] = []
    for (const [name, value] of Object.entries(node.env)) {
      if ("secret" in value) secrets.push((env[name] = await readSecret(this.#options, value.secret)))
      else env[name] = toText(await templates.render(value.value))
    }
    for (const [field, template] of Object.entries(node.fields)) fields[field] = await templates.render(template)
    for (const field of node.secretFields ?? []) secrets.push(await this.#placeSecret(fields, field))
    return { env, fields, secrets }
  }

  /** Copies on the way to the value: rendered literals are shared with the compiled node, which never contains a secret. */
  async #placeSecret(fields: Assignment["fields"], { at, secret, prefix }: SecretField): Promise<string> {
    const value = await readSecret(this.#options, secret)
    const [field, ...path] = at as [string, ...string[]]
    fields[field] = withValue(fields[field] ?? null, path, `${prefix ?? ""}${value}`)
    return value
  }

  /** Returns the command. The expressions of a shell script become variables, which are added to `env`. */
  async #command(
    command: NonNullable<Node["command"]>,
    templates: Templates,
    env: Env,
  ): Promise<NonNullable<Assignment["command"]>> {
    if ("shell" in command) {
      for (const { name, expr } of command.vars) env[name] = toText(await templates.evaluate(expr))
      return { shell: command.shell }
    }
    const argv: string[] = []
    for (const template of command.argv) {
      const word = toText(await templates.render(template))
      checkValue(`argument ${argv.length} of the command`, word)
      argv.push(word)
    }
    return { argv }
  }
}

/** Renders the templates of one claim. Builds the scope on first use: most tasks have no expressions. */
class Templates {
  readonly #evaluator: EngineOptions["evaluator"]
  readonly #buildScope: () => Promise<ExpressionScope>
  #scope: Promise<ExpressionScope> | null = null

  constructor({ evaluator }: Pick<EngineOptions, "evaluator">, scope: () => Promise<ExpressionScope>) {
    this.#evaluator = evaluator
    this.#buildScope = scope
  }

  render(template: Template): Json | Promise<Json> {
    if ("lit" in template) return template.lit
    return this.#getScope().then((scope) => this.#evaluator.render(template, scope))
  }

  async evaluate(source: string): Promise<Json> {
    return await this.#evaluator.evaluate(source, await this.#getScope())
  }

  #getScope(): Promise<ExpressionScope> {
    return (this.#scope ??= this.#buildScope())
  }
}

type Identity = Pick<Assignment, "runId" | "taskId" | "path" | "parallelIndex" | "parallelCount" | "logicalDate">

type Base = Identity &
  Pick<Assignment, "attemptId" | "attempt" | "workflow" | "task" | "node" | "prefix" | "maxOutputBytes" | "graceMs">

/** Returns the ids of an assignment and its place in the run. For a job, both ids are the job's. */
const identityOf = (claim: Claim, node: Node): Identity => {
  if (claim.kind === "job") {
    const { id } = claim.job
    return { runId: id, taskId: id, path: "", parallelIndex: null, parallelCount: null, logicalDate: null }
  }
  const { runId, row, path, count, run } = claim
  const parallelIndex = node.fan === undefined ? null : lastIndex(path)
  return {
    runId,
    taskId: taskId(runId, row),
    path,
    parallelIndex,
    parallelCount: parallelIndex === null ? null : count,
    logicalDate: run.logicalDate,
  }
}

const isLarge = (output: Output): boolean =>
  "key" in output ? output.bytes > MERGE_LIMIT : JSON.stringify(output.inline).length > MERGE_LIMIT

/** Returns a copy of `whole` with `value` at the given path. */
const withValue = (whole: Json, [key, ...rest]: string[], value: string): Json => {
  if (key === undefined) return value
  if (Array.isArray(whole)) return whole.map((item, i) => (String(i) === key ? withValue(item, rest, value) : item))
  const object: JsonObject = isObject(whole) ? whole : {}
  return { ...object, [key]: withValue(object[key] ?? null, rest, value) }
}

const checkValue = (what: string, value: string): void => {
  if (value.includes("\0")) throw new TaskFailure(`${what} contains a NUL character`)
  if (Buffer.byteLength(value) > VALUE_LIMIT) {
    throw new TaskFailure(`${what} is larger than 100 KiB; read it from $ORK_INPUT instead`)
  }
}
