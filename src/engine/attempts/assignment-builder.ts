// Builds the assignment of a claim: its input, environment, command, fields and folders, with every expression resolved.

import type { EngineOptions, Folders } from "../ports.ts"
import { objectPrefixOf, runOrJobIdOf } from "./claims.ts"
import { EnvFiles } from "./env-files.ts"
import { buildScope, visibleOutput } from "./expression-scope.ts"
import type { OutputReader } from "./outputs.ts"
import { findUpstreamArtifacts } from "./upstream-artifacts.ts"
import { insertSecrets, readSecret } from "./secret.ts"
import { TaskFailure } from "./task-failure.ts"
import type { Callbacks } from "./callbacks.ts"
import type { Output } from "../../core/model/change.ts"
import { type ExpressionScope, toText } from "../../core/expressions/expressions.ts"
import { taskId } from "../../core/model/ids.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import { lastIndex, shortName } from "../../core/model/task-path.ts"
import { type CompiledWorkflow, EXEC_EXECUTORS, type Node, type Template } from "../../core/model/workflow.ts"
import { allowedFor, policyViolation } from "../../core/rules/access/policy.ts"
import type { Assignment } from "../../executors/executor.ts"
import type { Claim, TaskClaim } from "../../store/contract/store.ts"

/** Larger upstream outputs of a fan-out become files, instead of being copied into the input of every instance. */
const FAN_LIMIT = 64 * 1024
/**
 * Upstream outputs beyond this size, together, become files whose texts are inserted into the input: parsing them would block the
 * server.
 */
const PARSE_LIMIT = 1024 * 1024
/** Limit of an argument or variable; the kernel's is 128 KiB. */
const VALUE_LIMIT = 100 * 1024

/** Default of `maxArtifactBytes`. */
export const MAX_ARTIFACT_BYTES = 1024 ** 3

type Options = Pick<
  EngineOptions,
  | "store"
  | "objects"
  | "evaluator"
  | "secret"
  | "maxOutputBytes"
  | "maxArtifactBytes"
  | "maxLogBytes"
  | "graceMs"
  | "policy"
  | "dataDir"
>

type Env = Assignment["env"]

/** The task of a claim, its folders, and its templates for the scope of the claim. */
interface TaskSource {
  workflow: CompiledWorkflow
  node: Node
  folders: Folders
  templates: Templates
}

export class AssignmentBuilder {
  readonly #options: Options
  readonly #outputs: OutputReader
  readonly #callbacks: Callbacks
  readonly #envFiles: EnvFiles

  constructor(options: Options, outputs: OutputReader, callbacks: Callbacks) {
    this.#options = options
    this.#outputs = outputs
    this.#callbacks = callbacks
    this.#envFiles = new EnvFiles(options)
  }

  /** Returns the assignment at once when nothing of it has to be read or evaluated: a promise for each job would cost more than the rest. */
  build(claim: Claim, workflow: CompiledWorkflow, node: Node, folders: Folders): Assignment | Promise<Assignment> {
    const assignment = this.#newAssignment(claim, workflow, node)
    const ownInput = claim.kind === "job" ? claim.job.payload : node.paramsAsInput === true ? claim.run.params : undefined
    if (ownInput === undefined || !isPlain(node)) return this.#render(assignment, claim, { workflow, node, folders }, ownInput)
    assignment.input = ownInput
    this.#applyPolicy(workflow, assignment, null)
    return inFolder(assignment, folders.workingDir(claim, null))
  }

  async #render(
    assignment: Assignment,
    claim: Claim,
    { workflow, node, folders }: Omit<TaskSource, "templates">,
    ownInput: Json | undefined,
  ): Promise<Assignment> {
    const templates = new Templates(this.#options, () => buildScope(this.#outputs, claim, workflow, node))
    const source: TaskSource = { workflow, node, folders, templates }
    if (ownInput !== undefined) assignment.input = ownInput
    else if (claim.kind !== "job") await this.#addInput(assignment, claim, source)
    if (claim.kind !== "job" && node.artifactsFrom !== undefined) await this.#addUpstreamArtifacts(assignment, claim, source)
    if (node.artifacts !== undefined) await this.#addArtifactPatterns(assignment, node.artifacts, templates)
    if (node.envFile !== undefined && claim.kind !== "job") {
      const place = { bundle: workflow.bundle, workingDir: claim.run.workingDir }
      Object.assign(assignment.env, await this.#envFiles.read(node.envFile, place))
    }
    await this.#addVariables(assignment, node.env, templates)
    const { env, fields, secrets } = assignment
    for (const field in node.fields) fields[field] = await templates.render(node.fields[field]!)
    const wanted = node.workingDir === undefined ? null : toText(await templates.render(node.workingDir))
    this.#applyPolicy(workflow, assignment, wanted)
    if (node.secretFields !== undefined) secrets.push(...(await insertSecrets(this.#options, fields, node)))
    if (node.command !== undefined) assignment.command = await this.#command(node.command, templates, env)
    for (const name in env) checkValue(`the value of ${name}`, env[name]!)
    const code = node.file === undefined || claim.kind === "job" ? null : await folders.code(claim, workflow.bundle ?? null)
    if (code !== null) assignment.code = code
    await inFolder(assignment, folders.workingDir(claim, wanted))
    if (claim.kind !== "job" && node.defer !== undefined) {
      const variables = this.#callbacks.environment(claim)
      assignment.callback = () => variables
      secrets.push(variables["ORK_CALLBACK_TOKEN"]!)
    }
    return assignment
  }

  /** Adds the item, then upstream outputs by name, then the task's own input: later values win. */
  async #addInput(assignment: Assignment, claim: TaskClaim, { workflow, node, folders, templates }: TaskSource): Promise<void> {
    const input: JsonObject = node.fan?.foreach === undefined ? {} : { item: claim.item }
    assignment.input = input
    const { files, reading } = this.#addOutputs(input, claim, workflow, node)
    if (reading.length > 0) await Promise.all(reading)
    if (node.input !== undefined) Object.assign(input, await templates.render(node.input))
    if (node.fan === undefined && files.size > 0) {
      for (const name of Object.keys(input)) files.delete(name)
      if (files.size > 0) assignment.inputFiles = [...files.keys()]
    }
    if (files.size > 0) assignment.upstreamDir = await folders.upstream(claim, files)
  }

  /** Finds the artifacts of `artifacts_from`. `ork exec` downloads them itself. */
  async #addUpstreamArtifacts(
    assignment: Assignment,
    claim: TaskClaim,
    { workflow, node, folders }: TaskSource,
  ): Promise<void> {
    const sources = await findUpstreamArtifacts(this.#options, claim, workflow, node)
    assignment.upstreamArtifacts = sources
    if (!EXEC_EXECUTORS.includes(node.executor)) assignment.artifactsDir = await folders.artifacts(claim, sources)
  }

  async #addArtifactPatterns(assignment: Assignment, artifacts: Template, templates: Templates): Promise<void> {
    const { maxArtifactBytes = MAX_ARTIFACT_BYTES } = this.#options
    const patterns = [await templates.render(artifacts)].flat().map(toText)
    assignment.artifacts = { patterns, maxBytes: maxArtifactBytes }
  }

  async #addVariables({ env, secrets }: Assignment, variables: Node["env"], templates: Templates): Promise<void> {
    for (const name in variables) {
      const value = variables[name]!
      if ("secret" in value) secrets.push((env[name] = await readSecret(this.#options, value.secret)))
      else env[name] = toText(await templates.render(value.value))
    }
  }

  /** Throws a TaskFailure if the administrator's policy forbids the task. The executor checks what is not known here. */
  #applyPolicy(workflow: CompiledWorkflow, assignment: Assignment, workingDir: string | null): void {
    const { policy } = this.#options
    if (policy === undefined) return
    const { node, fields } = assignment
    assignment.policy = allowedFor(policy, workflow)
    const forbidden = policyViolation(assignment.policy, { ...node, fields, workingDir })
    if (forbidden !== null) throw new TaskFailure(forbidden)
  }

  /** Builds what an executor needs to find and stop the work of a claim: never rejects, and omits fields that cannot be evaluated. */
  async buildStop(claim: Claim, workflow: CompiledWorkflow, node: Node): Promise<Assignment> {
    const templates = new Templates(this.#options, () => buildScope(this.#outputs, claim, workflow, node))
    const assignment = this.#newAssignment(claim, workflow, node)
    for (const [field, template] of Object.entries(node.fields)) {
      try {
        assignment.fields[field] = await templates.render(template)
      } catch {
        // The work may be found without it.
      }
    }
    return assignment
  }

  /** Returns an assignment without the parts that need an expression, an output or a folder. For a job, both ids are the job's. */
  #newAssignment(claim: Claim, workflow: CompiledWorkflow, node: Node): Assignment {
    const isJob = claim.kind === "job"
    const parallelIndex = isJob || node.fan === undefined ? null : lastIndex(claim.path)
    return {
      runId: runOrJobIdOf(claim),
      taskId: isJob ? claim.job.id : taskId(claim.runId, claim.row),
      row: claim.row,
      attemptId: claim.attemptId,
      attempt: claim.attempt,
      workflow: workflow.name,
      task: node.name,
      path: isJob ? "" : claim.path,
      parallelIndex,
      parallelCount: isJob || parallelIndex === null ? null : claim.instanceCount,
      logicalDate: isJob ? null : claim.run.logicalDate,
      node,
      input: null,
      fields: {},
      command: null,
      env: {},
      baseDir: "/",
      workingDir: "/",
      upstreamDir: null,
      prefix: objectPrefixOf(claim, node),
      maxOutputBytes: this.#options.maxOutputBytes,
      ...(this.#options.maxLogBytes !== undefined && { maxLogBytes: this.#options.maxLogBytes }),
      graceMs: this.#options.graceMs,
      secrets: [],
    }
  }

  /** Adds upstream outputs to the input by name. `files`: outputs that become files instead. `reading`: outputs that are not here yet. */
  #addOutputs(
    input: JsonObject,
    claim: TaskClaim,
    { nodes }: CompiledWorkflow,
    node: Node,
  ): { files: Map<string, Output>; reading: Promise<void>[] } {
    const files = new Map<string, Output>()
    const reading: Promise<void>[] = []
    let parsedBytes = 0
    for (const index of node.upstream) {
      const name = shortName(nodes[index]!)
      const state = claim.reads.get(index)
      const output = state === undefined ? null : visibleOutput(nodes[index]!, state)
      const bytes = output !== null && "key" in output ? output.bytes : 0
      if (output !== null && (node.fan === undefined ? parsedBytes + bytes > PARSE_LIMIT : exceedsFanLimit(output))) {
        files.set(name, output)
        continue
      }
      parsedBytes += bytes
      const value = this.#outputs.value(output)
      input[name] = null
      if (value instanceof Promise) reading.push(value.then((read) => void (input[name] = read)))
      else input[name] = value
    }
    return { files, reading }
  }

  /** Returns the command. The expressions of a shell script become variables, which are added to `env`. */
  async #command(
    command: NonNullable<Node["command"]>,
    templates: Templates,
    env: Env,
  ): Promise<NonNullable<Assignment["command"]>> {
    if ("shell" in command) {
      const values = new Map<string, { expr: string; value: Json }>()
      for (const { name, expr } of command.vars) {
        const value = await templates.evaluate(expr)
        values.set(name, { expr, value })
        env[name] = toText(value)
      }
      for (const names of command.guarded ?? []) {
        const first = names.map((name) => values.get(name)!).find(({ value }) => value !== "")
        if (first !== undefined) checkOption(`\${{ ${first.expr} }}`, first.value)
      }
      const { shell, interpreter } = command
      return { shell, ...(interpreter !== undefined && { interpreter }) }
    }
    const guarded = new Set(command.guarded)
    const argv: string[] = []
    for (const [i, template] of command.argv.entries()) {
      const value = await templates.render(template)
      const word = toText(value)
      checkValue(`argument ${i} of the command`, word)
      if (guarded.has(i)) checkOption(`argument ${i} of the command`, value)
      argv.push(word)
    }
    return { argv }
  }
}

/** Returns whether an assignment of the node has nothing but an input: no text to evaluate, and nothing to read. */
const isPlain = (node: Node): boolean =>
  isEmpty(node.env) &&
  isEmpty(node.fields) &&
  node.command === undefined &&
  node.file === undefined &&
  node.envFile === undefined &&
  node.artifacts === undefined &&
  node.artifactsFrom === undefined &&
  node.secretFields === undefined &&
  node.defer === undefined &&
  node.workingDir === undefined

const isEmpty = (object: object): boolean => {
  for (const _ in object) return false
  return true
}

type Folder = Awaited<ReturnType<Folders["workingDir"]>>

const inFolder = (assignment: Assignment, found: Folder | Promise<Folder>): Assignment | Promise<Assignment> =>
  found instanceof Promise ? found.then((folder) => Object.assign(assignment, folder)) : Object.assign(assignment, found)

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

const exceedsFanLimit = (output: Output): boolean =>
  ("key" in output ? output.bytes : JSON.stringify(output.inline).length) > FAN_LIMIT

/** Rejects a text that a program would read as an option. Numbers may be negative. */
const checkOption = (what: string, value: Json): void => {
  if (typeof value !== "string" || !value.startsWith("-")) return
  const shown = JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value)
  throw new TaskFailure(
    `${what} is ${shown}, which a program may read as an option; write -- before it, or set allow_option_values: true`,
  )
}

const checkValue = (what: string, value: string): void => {
  if (value.includes("\0")) throw new TaskFailure(`${what} contains a NUL character`)
  if (Buffer.byteLength(value) > VALUE_LIMIT) {
    throw new TaskFailure(`${what} is larger than 100 KiB; read it from $ORK_INPUT instead`)
  }
}
