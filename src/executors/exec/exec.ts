// For executors whose containers (or jobs, or processes elsewhere) run `ork exec`: the engine's side of it. In `launch`:
//
//   const { environment } = await specOf(objects, assignment, { store: address })   // writes PREFIX/spec.json
//   … start the container with `environment` and the command `ork exec`; it needs its own credentials for the object store …
//   return watchExec({ objects, clock, assignment, context, gone })
//
// `environment` holds TASK_SPEC_PATH, ORK_OBJECT_STORE (when `store` is given) and the task's secrets, which are not in the spec.
// `ork exec` there runs the task, and writes PREFIX/{status.json,output.json,log}; on SIGTERM it stops the task and says so. The log is its own
// work too: do not copy the container's streams to it. `watchExec` calls `context.started` and `context.progress`, and never
// rejects. Not started in time is judged by the engine (start_timeout aborts the signal); a beat that does not come for 60 s is `lost`.
// On abort stop the container; then let `gone` resolve (or have `ork exec` write its end), for which watchExec waits
// graceMs + 30 s. An attempt taken over from a dead server: skip the first two steps if the container is there, and watch.

import { readdir } from "node:fs/promises"
import { createReadStream } from "node:fs"
import { join, posix } from "node:path"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { type ExecSpec, SECRET_VARIABLE, SPEC_FILE, SPEC_VARIABLE } from "../../protocol/wire/exec-files.ts"
import type { Assignment, LaunchContext } from "../executor.ts"
import { loopOf } from "./loop.ts"
import { Watch } from "./watch.ts"

export interface SpecOptions {
  /** Address of the object store as the container reaches it, for its ORK_OBJECT_STORE. Left out: the container knows. */
  store?: string
  /** Which of its executors `ork exec` uses. */
  executor?: string
  /** Folder to run in; by default the task's `working_dir` when it has one, else where `ork exec` is started. */
  workingDir?: string
}

export interface ExecStart {
  /** Key of the spec in the object store. */
  key: string
  /** Variables that the container needs beside its own. Holds secrets. */
  environment: { [name: string]: string }
}

export const specOf = async (objects: ObjectStore, assignment: Assignment, options: SpecOptions = {}): Promise<ExecStart> => {
  const { prefix, secrets } = assignment
  const isSecret = (value: string): boolean => secrets.some((secret) => secret !== "" && value.includes(secret))
  const entries = Object.entries({ ...assignment.env, ...assignment.callback?.() })
  const hidden = entries.filter(([, value]) => isSecret(value))
  const upstream = assignment.upstreamDir === null ? {} : await putUpstream(objects, assignment, assignment.upstreamDir)
  const { node } = assignment
  const spec: ExecSpec = {
    version: 1,
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
    executor: options.executor ?? "process",
    command: assignment.command,
    file: node.file ?? null,
    function: node.function ?? null,
    input: assignment.input,
    env: Object.fromEntries(entries.filter(([, value]) => !isSecret(value))),
    secret_env: hidden.map(([name]) => name),
    working_dir: options.workingDir ?? (node.workingDir === undefined ? null : assignment.workingDir),
    script_dir: node.scriptDir ?? null,
    upstream,
    timeout_ms: node.timeoutMs,
    grace_ms: assignment.graceMs,
    max_output_bytes: assignment.maxOutputBytes,
  }
  const key = prefix + SPEC_FILE
  await objects.put(key, JSON.stringify(spec))
  const environment = {
    [SPEC_VARIABLE]: key,
    ...(options.store !== undefined && { ORK_OBJECT_STORE: options.store }),
    ...Object.fromEntries(hidden.map(([name, value]) => [SECRET_VARIABLE + name, value])),
  }
  return { key, environment }
}

/** Files of $ORK_UPSTREAM as objects, once per run: by task name, as seen from the folder of the spec. */
const putUpstream = async (
  objects: ObjectStore,
  { prefix, runId }: Assignment,
  folder: string,
): Promise<ExecSpec["upstream"]> => {
  const upstream: ExecSpec["upstream"] = {}
  for (const file of await readdir(folder)) {
    if (!file.endsWith(".json")) continue
    const key = `runs/${runId}/.upstream/${file}`
    if ((await objects.size(key)) === null) await objects.putStream(key, createReadStream(join(folder, file)))
    upstream[file.slice(0, -".json".length)] = posix.relative(prefix, key)
  }
  return upstream
}

/** What became of a container that has ended. Counts only when `ork exec` did not write how the task ended. */
export type Gone = Pick<AttemptResult, "state" | "error" | "exitCode" | "usage" | "retryable">

export interface WatchOptions {
  objects: ObjectStore
  clock: Clock
  assignment: Assignment
  context: LaunchContext
  /** Resolves when the container is known to have ended: the end is then looked for at once. */
  gone?: Promise<Gone>
  /** How the container is known there; shown as the attempt's `external_id` in place of the pid inside of it. */
  externalId?: string
}

/** Follows an attempt that runs in `ork exec` to its end. All attempts on one object store share one loop. */
export const watchExec = (options: WatchOptions): Promise<AttemptResult> => {
  const loop = loopOf(options.objects, options.clock)
  return new Promise((resolve) => {
    const watch = new Watch(options, (result) => {
      loop.remove(watch)
      resolve(result)
    })
    loop.add(watch)
    void options.gone?.then((gone) => {
      watch.gone = gone
      loop.lookNow(watch)
    })
  })
}
