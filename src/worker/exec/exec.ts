// `ork exec`: runs one attempt from its spec in the object store, inside a container or a cluster job. Reads spec.json, runs the task
// with an executor, and writes status.json, output.json and the log beside it. Communicates only through the object store; the
// engine's side is src/executors/exec/.

import { mkdir, writeFile } from "node:fs/promises"
import { dirname, join, posix, resolve } from "node:path"
import { withRetries, StatusWriter } from "./status-writer.ts"
import { bareNode } from "../../core/model/bare-node.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import { messageOf } from "../../core/values/error-message.ts"
import type { Json } from "../../core/values/json.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { Node } from "../../core/model/workflow.ts"
import { AttemptRunner, StopSignal } from "../../engine/attempts/attempt-runner.ts"
import { storeArtifacts } from "../../objects/artifacts/store-artifacts.ts"
import type { Assignment, Executor } from "../../executors/executor.ts"
import { BundleFolders, bundleKey } from "../../objects/bundles/bundles.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { readOutputObject } from "../../objects/shared/read-object.ts"
import { type ExecSpec, execSpec, OUTPUT_FILE, SECRET_VARIABLE, STATUS_FILE } from "../../protocol/wire/exec-files.ts"

export interface ExecOptions {
  objects: ObjectStore
  /** Key of the spec. */
  key: string
  executors: ReadonlyMap<string, Executor>
  clock: Clock
  env: { [name: string]: string | undefined }
  cwd: string
  /** Folder for temporary files; the caller removes it. */
  folder: string
  /** Aborts when this process received a signal to end. */
  stopped: AbortSignal
  warn(message: string): void
}

/** There is no valid spec to run; nothing was written. */
export class ExecError extends Error {
  override readonly name = "ExecProblem"
}

export const runExec = async (options: ExecOptions): Promise<AttemptResult> => {
  const { objects, key, clock } = options
  const prefix = key.slice(0, key.lastIndexOf("/") + 1)
  const spec = await readSpec(objects, key)
  if ((await objects.size(prefix + STATUS_FILE)) !== null) {
    throw new ExecError(`the attempt of ${key} was started before: ${prefix + STATUS_FILE} exists; it is not run twice`)
  }
  const status = new StatusWriter(objects, prefix, clock, (message) => options.warn(message))
  await status.begin()
  const result = await runSpec(options, spec, prefix, status)
  const outputBytes = result.state === "success" ? await storeOutput(options, prefix, result) : null
  await status.end(result, outputBytes)
  return result
}

const readSpec = async (objects: ObjectStore, key: string): Promise<ExecSpec> => {
  const bytes = await objects.get(key)
  if (bytes === null) {
    throw new ExecError(`there is no spec at ${key} in the object store: check TASK_SPEC_PATH and ORK_OBJECT_STORE`)
  }
  try {
    return execSpec.parse(JSON.parse(Buffer.from(bytes).toString("utf8")))
  } catch (error) {
    throw new ExecError(`the spec at ${key} cannot be parsed: ${messageOf(error)}; is this Ork older than the server?`)
  }
}

const runSpec = async (options: ExecOptions, spec: ExecSpec, prefix: string, status: StatusWriter): Promise<AttemptResult> => {
  const { executors, clock } = options
  // The task has the rights of this process, and may read every file itself.
  const storeArtifactsOf = (assignment: Assignment): Promise<string | null> =>
    storeArtifacts(options.objects, { ...assignment, baseDir: "/" })
  const runner = new AttemptRunner({ executors, clock, storeArtifacts: storeArtifactsOf })
  const executor = executors.get(spec.executor)
  const stop = new StopSignal()
  const onStopped = (): void => stop.stop("shutdown")
  options.stopped.addEventListener("abort", onStopped)
  try {
    const assignment = await assignmentOf(options, spec, prefix)
    await executor?.start?.()
    if (options.stopped.aborted) onStopped()
    const result = await runner.run(assignment, stop, {
      started: (info) => status.started(info),
      progress: ({ fraction, details }) => status.progress(fraction ?? null, details ?? null),
    })
    const interrupted = result.state === "lost" && options.stopped.aborted
    return interrupted ? { ...result, error: "stopped by a signal to the process that ran it" } : result
  } catch (error) {
    return runner.failed(`could not prepare the task: ${messageOf(error)}`, true)
  } finally {
    options.stopped.removeEventListener("abort", onStopped)
    await executor?.stop?.()
  }
}

const assignmentOf = async (options: ExecOptions, spec: ExecSpec, prefix: string): Promise<Assignment> => {
  const secrets: { [name: string]: string } = {}
  for (const name of spec.secret_env) {
    const value = options.env[SECRET_VARIABLE + name]
    if (value === undefined) throw new Error(`${SECRET_VARIABLE}${name} is not set: the secret ${name} was not passed`)
    secrets[name] = value
  }
  return {
    runId: spec.run_id,
    taskId: spec.task_id,
    attemptId: spec.attempt_id,
    attempt: spec.attempt,
    workflow: spec.workflow_name,
    task: spec.task_name,
    path: spec.path,
    parallelIndex: spec.parallel_index,
    parallelCount: spec.parallel_count,
    logicalDate: spec.logical_date,
    node: nodeOf(spec),
    input: spec.input as Json,
    fields: {},
    command: spec.command,
    env: { ...spec.env, ...secrets },
    baseDir: options.cwd,
    ...(await codeOf(options, spec)),
    upstreamDir: await downloadUpstream(options, spec, prefix),
    ...(spec.version !== 1 && spec.input_files.length > 0 && { inputFiles: spec.input_files }),
    ...(spec.version === 3 && (await artifactsOf(options, spec, prefix))),
    prefix,
    maxOutputBytes: spec.max_output_bytes,
    ...(spec.max_log_bytes !== undefined && { maxLogBytes: spec.max_log_bytes }),
    graceMs: spec.grace_ms,
    secrets: Object.values(secrets),
  }
}

/** Unpacks the files of a function, and runs it among them, unless the spec has another folder. */
const codeOf = async (
  { objects, cwd, folder }: ExecOptions,
  { bundle, working_dir }: ExecSpec,
): Promise<Pick<Assignment, "workingDir" | "code">> => {
  if (bundle === null) return { workingDir: resolve(cwd, working_dir ?? ".") }
  const code = await new BundleFolders({ dataDir: folder, read: (hash) => objects.get(bundleKey(hash)) }).folder(bundle)
  return { workingDir: working_dir === null ? code : resolve(cwd, working_dir), code: { folder: code, bundle } }
}

const nodeOf = (spec: ExecSpec): Node =>
  bareNode({
    name: spec.task_name,
    executor: spec.executor,
    timeoutMs: spec.timeout_ms,
    ...(spec.file !== null && { file: spec.file }),
    ...(spec.function !== null && { function: spec.function }),
    ...(spec.script_dir !== null && { scriptDir: spec.script_dir }),
    ...(spec.output_format !== undefined && { outputFormat: spec.output_format }),
  })

const downloadUpstream = async ({ objects, folder }: ExecOptions, spec: ExecSpec, prefix: string): Promise<string | null> => {
  const entries = Object.entries(spec.upstream)
  if (entries.length === 0) return null
  const target = join(folder, "upstream")
  await mkdir(target)
  for (const [name, relative] of entries) {
    const key = posix.join(prefix, relative)
    await writeFile(join(target, `${name}.json`), readOutputObject(objects, key))
  }
  return target
}

/** Downloads the artifacts of upstream tasks. */
const artifactsOf = async (
  { objects, folder }: ExecOptions,
  { artifacts, upstream_artifacts: files }: Extract<ExecSpec, { version: 3 }>,
  prefix: string,
): Promise<Pick<Assignment, "artifacts" | "artifactsDir">> => {
  const artifactsDir = join(folder, "artifacts")
  for (const { path, key } of files ?? []) {
    const target = join(artifactsDir, path)
    await mkdir(dirname(target), { recursive: true })
    await writeFile(target, readOutputObject(objects, posix.join(prefix, key)))
  }
  if (files !== null) await mkdir(artifactsDir, { recursive: true })
  return {
    ...(artifacts !== null && { artifacts: { patterns: artifacts.patterns, maxBytes: artifacts.max_bytes } }),
    ...(files !== null && { artifactsDir }),
  }
}

/** Writes output.json, unless the executor has written a large output there. Returns its size. */
const storeOutput = async ({ objects, clock }: ExecOptions, prefix: string, { output }: AttemptResult): Promise<number> => {
  if (output !== undefined && "key" in output) return output.bytes
  const bytes = Buffer.from(JSON.stringify(output?.inline ?? null))
  await withRetries(clock, () => objects.put(prefix + OUTPUT_FILE, bytes))
  return bytes.length
}
