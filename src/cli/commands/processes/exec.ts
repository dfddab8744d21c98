// `ork exec`: runs one attempt from its spec in the object store, or calls a function of a file; the entry point of containers. Exit code
// 0 for success, otherwise the exit code of the task, or 1.

import { rm } from "node:fs/promises"
import { join } from "node:path"
import type { Context, EngineParts } from "../../target/context.ts"
import { InputError } from "../../terminal/errors.ts"
import { onTerminationSignal } from "../../run/signals.ts"
import { loadConfig } from "../../target/load-config.ts"
import type { Config } from "../../../config.ts"
import type { AttemptResult } from "../../../core/model/change.ts"
import { languageOf } from "../../../core/model/function.ts"
import type { ObjectStore } from "../../../objects/objects.ts"
import { createOwnedFolder } from "../../../objects/owned-folder.ts"
import { SPEC_VARIABLE } from "../../../protocol/wire/exec-files.ts"
import { ExecError, runExec } from "../../../worker/exec/exec.ts"

export interface ExecOptions {
  file?: string
  function?: string
  spec?: string
  objectStore?: string
}

export const exec = async (context: Context, options: ExecOptions): Promise<number> => {
  const { backends, stderr } = context
  if (options.file !== undefined) return callFile(context, options.file, options.function)
  const path = options.spec ?? context.env[SPEC_VARIABLE] ?? ""
  if (path === "") throw new InputError(`name the spec to run: set ${SPEC_VARIABLE}, or give --spec KEY`)
  const { key, store } = parseSpecAddress(path)
  const config = await loadConfig(context, { objectStore: store ?? options.objectStore })
  const report = (message: string): void => void stderr.write(`ork exec: ${message}\n`)
  return withExecutors(context, config, report, async ({ objects, executors, folder, stopped }) => {
    const { env, cwd } = context
    const { clock } = backends
    const result = await runExec({ objects, key, executors, clock, env, cwd, folder, stopped, warn: report }).catch(
      (error: unknown) => {
        throw error instanceof ExecError ? new InputError(error.message) : error
      },
    )
    report(`${result.state}${result.error === undefined ? "" : `: ${result.error}`}`)
    return exitCodeOf(result)
  })
}

/** Calls a function of a file in the current folder. Its log goes to the standard streams. */
const callFile = async (context: Context, file: string, name: string | undefined): Promise<number> => {
  if (languageOf(file) === null) {
    throw new InputError(`--file: ${file} is not a file with functions in Python (.py), TypeScript or JavaScript (.ts, .js)`)
  }
  const { callFunction } = await import("../../../worker/exec/function.ts")
  const config = await loadConfig(context, {})
  const report = (message: string): void => void context.stderr.write(`ork exec: ${message}\n`)
  return withExecutors(
    context,
    config,
    report,
    async ({ objects, executors, stopped }) => {
      const { env, cwd, stdout, stderr } = context
      const { graceMs, maxOutputBytes } = config
      const print = (stream: "stdout" | "stderr", line: string): void =>
        void (stream === "stdout" ? stdout : stderr).write(`${line}\n`)
      const limits = { graceMs, maxOutputBytes }
      const { clock } = context.backends
      const call = { file, function: name, executors, objects, clock, env, cwd, stopped, print, ...limits }
      const result = await callFunction(call)
      if (result.state !== "success") report(`${result.state}: ${result.error ?? ""}`)
      return exitCodeOf(result)
    },
    true,
  )
}

const exitCodeOf = ({ state, exitCode }: AttemptResult): number => (state === "success" ? 0 : exitCode || 1)

interface ExecParts {
  objects: ObjectStore
  executors: EngineParts["executors"]
  /** Folder for temporary files. */
  folder: string
  /** Aborts on a signal to this process. */
  stopped: AbortSignal
}

/** `local`: the objects are temporary files of this process. */
const withExecutors = async (
  context: Context,
  config: Config,
  report: (message: string) => void,
  use: (parts: ExecParts) => Promise<number>,
  local = false,
): Promise<number> => {
  const { backends } = context
  // Not in the current folder: a container's own folder may be read-only.
  const folder = createOwnedFolder("exec")
  const stopped = new AbortController()
  const stopListening = onTerminationSignal(
    () => {
      report("received a signal: stopping the task")
      stopped.abort()
    },
    () => undefined,
  )
  try {
    const objects = await backends.openObjects(local ? { ...config, objectStore: `file:${join(folder, "objects")}` } : config)
    const { executors, evaluator } = await backends.engineParts({ ...config, dataDir: folder }, objects, {
      folder: null,
      service: false,
    })
    try {
      return await use({ objects, executors, folder, stopped: stopped.signal })
    } finally {
      await evaluator.stop()
    }
  } finally {
    stopListening()
    await rm(folder, { recursive: true, force: true })
  }
}

/** Splits a full address into the root of its object store and a key. Returns a plain key without a store. */
const parseSpecAddress = (path: string): { key: string; store?: string } => {
  if (path.startsWith("file:")) return { key: path.replace(/^file:(\/\/)?\/*/, ""), store: "file:/" }
  if (!/^(s3|gs):\/\//.test(path)) return { key: path }
  if (!URL.canParse(path)) throw new InputError(`${SPEC_VARIABLE}: ${path} is not an address`)
  const url = new URL(path)
  return { key: decodeURIComponent(url.pathname.slice(1)), store: `${url.protocol}//${url.host}${url.search}` }
}
