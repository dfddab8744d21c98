// The engine's side of `ork exec`, for executors whose containers (or remote jobs) run it. In `launch`:
//
//   const { environment } = await writeSpec(objects, assignment, { store: address })   // writes PREFIX/spec.json
//   … start the container with `environment` and the command `ork exec`; it needs its own credentials for the object store …
//   return watchExec({ objects, clock, assignment, context, containerEnd })
//
// `environment` contains TASK_SPEC_PATH, ORK_OBJECT_STORE (when `store` is given) and the task's secrets, which are not in the
// spec. `ork exec` runs the task and writes PREFIX/{status.json,output.json,log}; do not copy the container's streams to the
// log. On SIGTERM it stops the task and writes its result. `watchExec` calls `context.started` and `context.progress`, and
// never rejects. The engine enforces start_timeout by aborting the signal; an attempt without a heartbeat for 60 s is `lost`.
// On abort, stop the container and resolve `containerEnd` (or let `ork exec` write its result): watchExec waits for graceMs +
// 30 s. To adopt an attempt of a dead server whose container exists, skip the first two steps.

import { readdir } from "node:fs/promises"
import { createReadStream } from "node:fs"
import { basename, join, posix, resolve } from "node:path"
import type { AttemptResult } from "../../core/model/change.ts"
import { languageOf } from "../../core/model/function.ts"
import type { Clock } from "../../core/model/ports.ts"
import { parseObjectAddress } from "../../core/settings/object-address.ts"
import { artifactKey } from "../../objects/artifacts/artifact-list.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { type ExecSpec, SECRET_VARIABLE, SPEC_FILE, SPEC_VARIABLE } from "../../protocol/wire/exec-files.ts"
import type { Assignment, LaunchContext } from "../executor.ts"
import { ExecAttempt } from "./exec-attempt.ts"
import { statusPollerOf } from "./status-poller.ts"

export interface SpecOptions {
  /** Address of the object store, for the ORK_OBJECT_STORE of the container. Omitted when the container has it. */
  store?: string
  /** Name of the executor that `ork exec` uses. */
  executor?: string
  /** Folder to run in; by default the task's `working_dir` if it has one, else the one in which `ork exec` is started. */
  workingDir?: string
}

export interface ExecStart {
  /** Key of the spec in the object store. */
  key: string
  /** Variables that the container needs in addition to its own. Contains secrets. */
  environment: { [name: string]: string }
}

export const writeSpec = async (
  objects: ObjectStore,
  assignment: Assignment,
  options: SpecOptions = {},
): Promise<ExecStart> => {
  const { prefix, secrets } = assignment
  const isSecret = (value: string): boolean => secrets.some((secret) => secret !== "" && value.includes(secret))
  const entries = Object.entries({ ...assignment.env, ...assignment.callback?.() })
  const hidden = entries.filter(([, value]) => isSecret(value))
  const upstream = assignment.upstreamDir === null ? {} : await putUpstream(objects, assignment, assignment.upstreamDir)
  const { node } = assignment
  const spec: ExecSpec = {
    ...versionedFields(assignment),
    run_id: assignment.runId,
    task_id: assignment.taskId,
    task_name: assignment.task,
    workflow_name: assignment.workflow,
    attempt_id: assignment.attemptId,
    attempt: assignment.attempt,
    path: assignment.path,
    parallel_index: assignment.parallelIndex,
    parallel_count: assignment.parallelCount,
    logical_date: assignment.logicalDate,
    executor: options.executor ?? (node.file === undefined ? "process" : (languageOf(node.file) ?? node.executor)),
    command: assignment.command,
    file: node.file ?? null,
    function: node.function ?? null,
    bundle: assignment.code?.bundle ?? null,
    input: assignment.input,
    env: Object.fromEntries(entries.filter(([, value]) => !isSecret(value))),
    secret_env: hidden.map(([name]) => name),
    working_dir: options.workingDir ?? (node.workingDir === undefined ? null : assignment.workingDir),
    script_dir: node.scriptDir ?? null,
    upstream,
    timeout_ms: node.timeoutMs,
    grace_ms: assignment.graceMs,
    max_output_bytes: assignment.maxOutputBytes,
    ...(node.outputFormat !== undefined && { output_format: node.outputFormat }),
    ...(assignment.maxLogBytes !== undefined && { max_log_bytes: assignment.maxLogBytes }),
  }
  const key = prefix + SPEC_FILE
  await objects.put(key, JSON.stringify(spec))
  const environment = {
    [SPEC_VARIABLE]: key,
    ...(options.store !== undefined && { ORK_OBJECT_STORE: absoluteAddress(options.store) }),
    ...Object.fromEntries(hidden.map(([name, value]) => [SECRET_VARIABLE + name, value])),
  }
  return { key, environment }
}

/** Returns the version of the spec, and the fields that older versions do not have. */
const versionedFields = ({ inputFiles, artifacts, upstreamArtifacts, prefix }: Assignment) => {
  if (artifacts === undefined && upstreamArtifacts === undefined)
    return inputFiles === undefined ? { version: 1 as const } : { version: 2 as const, input_files: inputFiles }
  const files = upstreamArtifacts?.flatMap((source) =>
    source.files.map(({ path }) => ({
      path: `${source.folder}/${path}`,
      key: posix.relative(prefix, artifactKey(source.prefix, path)),
    })),
  )
  return {
    version: 3 as const,
    input_files: inputFiles ?? [],
    artifacts: artifacts === undefined ? null : { patterns: artifacts.patterns, max_bytes: artifacts.maxBytes },
    upstream_artifacts: files ?? null,
  }
}

/** Makes the address of a store absolute: a relative folder would be looked for where the container starts. */
const absoluteAddress = (store: string): string => {
  const address = parseObjectAddress(store)
  return address?.kind === "file" ? `file:${resolve(address.folder)}` : store
}

/**
 * Uploads the files of $ORK_UPSTREAM, once per folder: outputs of other attempts are in another folder. Returns their keys relative to
 * the folder of the spec, by task name.
 */
const putUpstream = async (
  objects: ObjectStore,
  { prefix, runId }: Assignment,
  folder: string,
): Promise<ExecSpec["upstream"]> => {
  const upstream: ExecSpec["upstream"] = {}
  for (const file of await readdir(folder)) {
    if (!file.endsWith(".json")) continue
    const key = `runs/${runId}/.upstream/${basename(folder)}/${file}`
    if ((await objects.size(key)) === null) await objects.putStream(key, createReadStream(join(folder, file)))
    upstream[file.slice(0, -".json".length)] = posix.relative(prefix, key)
  }
  return upstream
}

/** The end of a container, which counts only when `ork exec` has not written how the task ended. */
export type ContainerEnd = Pick<AttemptResult, "state" | "error" | "exitCode" | "usage" | "retryable">

export interface WatchOptions {
  objects: ObjectStore
  clock: Clock
  assignment: Assignment
  context: LaunchContext
  /** Resolves when the container is known to have ended: the status is then read at once. */
  containerEnd?: Promise<ContainerEnd>
  /** Id of the container, shown as the attempt's `external_id` in place of the pid inside of it; null when it has none. */
  externalId?: string | null
}

/** Follows an attempt that runs in `ork exec` to its end. */
export const watchExec = (options: WatchOptions): Promise<AttemptResult> => {
  const poller = statusPollerOf(options.objects, options.clock)
  return new Promise((resolve) => {
    const attempt = new ExecAttempt(options, (result) => {
      poller.remove(attempt)
      resolve(result)
    })
    poller.add(attempt)
    const onContainerEnd = (containerEnd: ContainerEnd): void => {
      attempt.containerEnd = containerEnd
      poller.pollNow(attempt)
    }
    // A container whose end cannot be observed is found by its missing heartbeat.
    options.containerEnd?.then(onContainerEnd, () => {})
  })
}
