// What a task sees: the scope of its expressions, its input, its environment and its command, made from a claim. A claim
// carries the outputs that it needs; only large ones are read here, from the object store.

import { mkdir, rename, rm, stat, writeFile } from "node:fs/promises"
import { isAbsolute, join, resolve } from "node:path"
import { Callbacks } from "../waiting/callbacks.ts"
import type { EngineOptions } from "../ports.ts"
import { objectPrefixOf, ownerOf } from "./claims.ts"
import { tasksRead } from "./reads.ts"
import { secretOf } from "./secret.ts"
import { TaskFailure } from "./task-failure.ts"
import type { Output } from "../../core/model/change.ts"
import { ExpressionError, type ExpressionScope, toText } from "../../core/expressions/expressions.ts"
import { taskId } from "../../core/model/ids.ts"
import { isObject, type Json, type JsonObject } from "../../core/model/json.ts"
import { isGroup, isInstance, lastIndex, enclosingPath, shortName } from "../../core/model/task-path.ts"
import { dayIn } from "../../core/time/schedule.ts"
import type { CompiledWorkflow, Node, SecretField, Template } from "../../core/model/workflow.ts"
import type { Assignment } from "../../executors/executor.ts"
import { BundleFolders, bundleKey } from "../../objects/bundles/bundles.ts"
import type { Claim, JobClaim, TaskClaim } from "../../store/contract/store.ts"

const MERGE_LIMIT = 64 * 1024
const VALUE_LIMIT = 100 * 1024
const KEPT_OUTPUTS = 8

interface Given {
  input: JsonObject
  /** Holds what is too large to merge. */
  upstreamDir: string | null
}

/** Where an attempt finds its files: on this machine, or on that of a worker. */
export interface Folders {
  /** `wanted`: what the task's `working_dir` says, if anything. */
  workingDir(claim: Claim, wanted: string | null): string | Promise<string>
  /** Where the files lie that came with its version, for tasks that name one. */
  code(claim: TaskClaim, bundle: string | null): Promise<NonNullable<Assignment["code"]> | null>
  /** The folder that holds NAME.json for an upstream output that is too large to merge. */
  upstream(claim: TaskClaim, name: string, output: Output): Promise<string>
}

export class AssignmentBuilder {
  readonly #options: EngineOptions
  readonly callbacks: Callbacks
  /** Large outputs read lately: the instances of a fan-out all ask for the same ones. */
  readonly #outputs = new Map<string, Promise<Json>>()
  readonly #upstreamFiles = new Map<string, Promise<string>>()
  /** Runs that have such files here. */
  readonly #upstreamRuns = new Set<string>()
  /** Folders on their way out: a retry of the run waits for that before it writes anew. */
  readonly #removing = new Map<string, Promise<void>>()

  readonly #bundles: BundleFolders

  readonly #here: Folders = {
    workingDir: (claim, wanted) => this.#workingDir(claim, wanted),
    code: (claim, bundle) => this.#code(claim, bundle),
    upstream: (claim, name, output) => this.#upstreamFile(claim, name, output),
  }

  constructor(options: EngineOptions) {
    this.#options = options
    const { dataDir, objects } = options
    this.#bundles = new BundleFolders({ dataDir, read: (hash) => objects.get(bundleKey(hash)) })
    this.callbacks = new Callbacks(options.store, () => options.address?.() ?? null)
  }

  async scope(claim: Claim, workflow: CompiledWorkflow, node: Node): Promise<ExpressionScope> {
    return claim.kind === "job" ? jobScope(claim) : await this.#taskScope(claim, workflow, node)
  }

  async #taskScope(claim: TaskClaim, workflow: CompiledWorkflow, node: Node): Promise<ExpressionScope> {
    const reads = tasksRead(node)
    const tasks: ExpressionScope["tasks"] = {}
    for (const [index, need] of claim.reads) {
      const name = shortName(workflow.nodes[index]!)
      if (reads !== "all" && !reads.has(name)) continue
      tasks[name] = { status: need.status, output: await this.value(handedDown(workflow.nodes[index]!, need)) }
    }
    const scope: ExpressionScope = { params: claim.run.params, tasks, run: runScope(claim) }
    if (isInstance(node, claim.kind)) {
      scope.index = lastIndex(claim.path)
      if (node.fan!.foreach !== undefined) scope.item = claim.item
    }
    if (node.parent !== undefined) {
      const index = lastIndex(enclosingPath(workflow, claim.node, claim.path))
      const hasItem = workflow.nodes[node.parent]!.fan?.foreach !== undefined
      scope.parent = hasItem ? { index, item: claim.parentItem } : { index }
    }
    return scope
  }

  async build(claim: Claim, workflow: CompiledWorkflow, node: Node, folders: Folders = this.#here): Promise<Assignment> {
    let known: Promise<ExpressionScope> | undefined
    // Most tasks have no expressions: their scope is made for nobody.
    const scope = (): Promise<ExpressionScope> => (known ??= this.scope(claim, workflow, node))
    const render = (template: Template): Json | Promise<Json> =>
      "lit" in template ? template.lit : scope().then((values) => this.#options.evaluator.render(template, values))
    const given =
      claim.kind === "job"
        ? { input: claim.job.payload, upstreamDir: null }
        : this.#input(claim, workflow, node, render, folders)
    // Most of what follows is at hand: to wait for each of it would cost more than all the rest.
    const { input, upstreamDir } = given instanceof Promise ? await given : given
    const env: { [name: string]: string } = {}
    const secrets: string[] = []
    for (const [name, value] of Object.entries(node.env)) {
      if ("secret" in value) secrets.push((env[name] = await secretOf(this.#options, value.secret)))
      else env[name] = toText(await render(value.value))
    }
    const fields: { [field: string]: Json } = {}
    for (const [field, template] of Object.entries(node.fields)) fields[field] = await render(template)
    for (const field of node.secretFields ?? []) secrets.push(await this.#placeSecret(fields, field))
    const command = node.command === undefined ? null : await this.#command(node.command, scope, render, env)
    for (const [name, value] of Object.entries(env)) checkValue(`the value of ${name}`, value)
    const code = node.file === undefined || claim.kind === "job" ? null : await folders.code(claim, workflow.bundle ?? null)
    const wanted = node.workingDir === undefined ? null : toText(await render(node.workingDir))
    const workingDir = folders.workingDir(claim, wanted)
    return {
      ...identityOf(claim, node),
      attemptId: claim.attemptId,
      attempt: claim.attempt,
      workflow: workflow.name,
      task: node.name,
      node,
      input,
      fields,
      command,
      env,
      workingDir: typeof workingDir === "string" ? workingDir : await workingDir,
      ...(code !== null && { code }),
      upstreamDir,
      prefix: objectPrefixOf(claim, node),
      maxOutputBytes: this.#options.maxOutputBytes,
      graceMs: this.#options.graceMs,
      secrets,
      ...(claim.kind !== "job" && { callback: () => this.callbacks.environment(claim) }),
    }
  }

  /** The folder of a job goes with its end. */
  async tidyJob(id: string): Promise<void> {
    await rm(runFolder(this.#options.dataDir, id), { recursive: true, force: true }).catch((error: unknown) =>
      this.#options.log.warn({ job: id, error: String(error) }, "could not remove the folder of a job"),
    )
  }

  /** item, then upstream outputs by name, then the task's own input: later wins. */
  #input(
    claim: TaskClaim,
    workflow: CompiledWorkflow,
    node: Node,
    render: (template: Template) => Json | Promise<Json>,
    folders: Folders,
  ): Given | Promise<Given> {
    const input: JsonObject = {}
    if (node.fan !== undefined || node.input !== undefined) return this.#inputLater(claim, workflow, node, render, folders)
    for (const index of node.upstream) {
      const need = claim.reads.get(index)
      const value = need === undefined ? null : this.value(handedDown(workflow.nodes[index]!, need))
      if (value instanceof Promise) return this.#inputLater(claim, workflow, node, render, folders)
      input[shortName(workflow.nodes[index]!)] = value
    }
    return { input, upstreamDir: null }
  }

  /** The same, for what has to be waited for. */
  async #inputLater(
    claim: TaskClaim,
    workflow: CompiledWorkflow,
    node: Node,
    render: (template: Template) => Json | Promise<Json>,
    folders: Folders,
  ): Promise<Given> {
    const input: JsonObject = {}
    let upstreamDir: string | null = null
    if (node.fan?.foreach !== undefined) input["item"] = claim.item
    for (const index of node.upstream) {
      const name = shortName(workflow.nodes[index]!)
      const need = claim.reads.get(index)
      const output = need === undefined ? null : handedDown(workflow.nodes[index]!, need)
      if (node.fan !== undefined && output !== null && isLarge(output)) {
        upstreamDir = await folders.upstream(claim, name, output)
      } else {
        input[name] = await this.value(output)
      }
    }
    if (node.input !== undefined) Object.assign(input, await render(node.input))
    return { input, upstreamDir }
  }

  async #command(
    command: NonNullable<Node["command"]>,
    scope: () => Promise<ExpressionScope>,
    render: (template: Template) => Json | Promise<Json>,
    env: { [name: string]: string },
  ): Promise<NonNullable<Assignment["command"]>> {
    if ("shell" in command) {
      for (const { name, expr } of command.vars) env[name] = toText(await this.#options.evaluator.evaluate(expr, await scope()))
      return { shell: command.shell }
    }
    const argv: string[] = []
    for (const template of command.argv) {
      const word = toText(await render(template))
      checkValue(`argument ${argv.length} of the command`, word)
      argv.push(word)
    }
    return { argv }
  }

  #workingDir(claim: Claim, wanted: string | null): string | Promise<string> {
    const given = claim.kind === "job" ? null : claim.run.workingDir
    return given === null ? this.#ownFolder(claim, wanted) : folderIn(given, wanted)
  }

  /** The run's own folder, with the files that came with its version. */
  async #ownFolder(claim: Claim, wanted: string | null): Promise<string> {
    const own = runFolder(this.#options.dataDir, ownerOf(claim))
    const bundle = claim.kind === "job" ? undefined : this.#options.store.compiledNow(claim.versionId).bundle
    await (bundle === undefined ? mkdir(own, { recursive: true }) : this.#bundles.copyTo(own, bundle))
    return folderIn(own, wanted)
  }

  async #code(claim: TaskClaim, bundle: string | null): Promise<NonNullable<Assignment["code"]> | null> {
    if (bundle !== null) return { folder: await this.#bundles.folder(bundle), bundle }
    return claim.run.workingDir === null ? null : { folder: claim.run.workingDir, bundle: null }
  }

  /** Into fields that are this attempt's own: what was compiled is shared, and never holds a value. */
  async #placeSecret(fields: Assignment["fields"], { at, secret, prefix }: SecretField): Promise<string> {
    const value = await secretOf(this.#options, secret)
    const [field, ...path] = at as [string, ...string[]]
    fields[field] = withValue(fields[field] ?? null, path, `${prefix ?? ""}${value}`)
    return value
  }

  /** Read, if it is a large one. */
  value(output: Output | null): Json | Promise<Json> {
    if (output === null) return null
    if ("inline" in output) return output.inline
    const known = this.#outputs.get(output.key)
    if (known !== undefined) return known
    const reading = this.read(output.key)
    this.#outputs.set(output.key, reading)
    reading.catch(() => this.#outputs.delete(output.key))
    if (this.#outputs.size > KEPT_OUTPUTS) this.#outputs.delete(this.#outputs.keys().next().value!)
    return reading
  }

  /** A large output, whole. */
  async read(key: string): Promise<Json> {
    const bytes = await this.#options.objects.get(key)
    if (bytes === null) throw new TaskFailure(`the output ${key} is gone from the object store`)
    return JSON.parse(Buffer.from(bytes).toString("utf8")) as Json
  }

  /** Written once per run and host, inside a group once per item, whoever asks first. */
  async #upstreamFile(claim: TaskClaim, name: string, output: Output): Promise<string> {
    const { runId } = claim
    const workflow = this.#options.store.compiledNow(claim.versionId)
    const { group } = workflow.nodes[claim.node]!
    const inside = group === null ? "" : `${group}@${enclosingPath(workflow, claim.node, claim.path)}`
    const folder = join(upstreamFolder(this.#options.dataDir, runId), inside)
    const file = join(folder, `${name}.json`)
    let writing = this.#upstreamFiles.get(file)
    if (writing === undefined) {
      this.#upstreamRuns.add(runId)
      writing = this.#writeUpstream(runId, folder, file, output)
      this.#upstreamFiles.set(file, writing)
      writing.catch(() => this.#upstreamFiles.delete(file))
      if (this.#upstreamFiles.size > 1000) this.#upstreamFiles.delete(this.#upstreamFiles.keys().next().value!)
    }
    return await writing
  }

  /** The run has ended: files that only its own tasks needed go with it. What a crash left behind goes when the run is removed. */
  forget(runId: string): void {
    if (!this.#upstreamRuns.delete(runId)) return
    const { dataDir, log } = this.#options
    const folder = upstreamFolder(dataDir, runId)
    for (const file of this.#upstreamFiles.keys()) if (file.startsWith(folder)) this.#upstreamFiles.delete(file)
    const removing = rm(folder, { recursive: true, force: true })
      .catch((error: unknown) => log.warn({ run: runId, error: String(error) }, "could not remove upstream files"))
      .finally(() => this.#removing.delete(folder))
    this.#removing.set(folder, removing)
  }

  async #writeUpstream(runId: string, folder: string, file: string, output: Output): Promise<string> {
    await this.#removing.get(upstreamFolder(this.#options.dataDir, runId))
    if (await stat(file).catch(() => null)) return folder
    await mkdir(folder, { recursive: true })
    const bytes = "inline" in output ? JSON.stringify(output.inline) : await this.#options.objects.get(output.key)
    if (bytes === null) throw new TaskFailure(`the output behind ${file} is gone from the object store`)
    await writeFile(`${file}.part`, bytes)
    await rename(`${file}.part`, file)
    return folder
  }
}

type Identity = Pick<Assignment, "runId" | "taskId" | "path" | "parallelIndex" | "parallelCount" | "logicalDate">

/** Returns the ids of an assignment and its place in the run. A job's id stands for both of its ids. */
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

export const runFolder = (dataDir: string, runId: string): string => join(dataDir, "work", runId)
export const upstreamFolder = (dataDir: string, runId: string): string => join(dataDir, "upstream", runId)

const isLarge = (output: Output): boolean =>
  "key" in output ? output.bytes > MERGE_LIMIT : JSON.stringify(output.inline).length > MERGE_LIMIT

const withValue = (whole: Json, [key, ...rest]: string[], value: string): Json => {
  if (key === undefined) return value
  if (Array.isArray(whole)) return whole.map((item, i) => (String(i) === key ? withValue(item, rest, value) : item))
  const object: JsonObject = isObject(whole) ? whole : {}
  return { ...object, [key]: withValue(object[key] ?? null, rest, value) }
}

const checkValue = (what: string, value: string): void => {
  if (value.includes("\0")) throw new TaskFailure(`${what} holds a NUL character`)
  if (Buffer.byteLength(value) > VALUE_LIMIT) {
    throw new TaskFailure(`${what} is larger than 100 KiB; read it from $ORK_INPUT instead`)
  }
}

const folderIn = (folder: string, wanted: string | null): string =>
  wanted === null ? folder : isAbsolute(wanted) ? wanted : resolve(folder, wanted)

const runScope = ({ runId, run }: TaskClaim): ExpressionScope["run"] => {
  const logical = run.logicalDate ?? run.createdAt
  return {
    id: runId,
    workflow: run.workflow,
    logical_date: logical,
    date: run.timezone === null ? logical.slice(0, 10) : dayIn(run.timezone, new Date(logical)),
    trigger: run.trigger,
    status: run.status,
    error: run.error,
  }
}

/** Returns the scope of a job's expressions: it has neither parameters nor upstream tasks, and `run` describes the job. */
const jobScope = ({ job, createdAt }: JobClaim): ExpressionScope => ({
  params: {},
  tasks: {},
  run: {
    id: job.id,
    workflow: "",
    logical_date: createdAt,
    date: createdAt.slice(0, 10),
    trigger: "job",
    status: "running",
    error: null,
  },
})

/** A task that did not succeed is null below, whatever it left (a rejected approval says by whom); a container gives what it has. */
const handedDown = (node: Node, { status, output }: { status: string; output: Output | null }): Output | null =>
  status === "success" || node.fan !== undefined || isGroup(node) ? output : null

/** Errors of expressions and inputs are the task's own fault, not the engine's. */
export const isTaskFault = (error: unknown): error is Error => error instanceof TaskFailure || error instanceof ExpressionError
