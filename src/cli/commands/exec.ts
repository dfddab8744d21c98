// `ork exec`: runs one attempt from its spec in the object store; the entry point of containers. Exit code 0 for success, otherwise
// the exit code of the task, or 1.

import { rm } from "node:fs/promises"
import type { Context } from "../target/context.ts"
import { InputError } from "../terminal/errors.ts"
import { onTerminationSignal } from "../run/signals.ts"
import { loadConfig } from "../target/load-config.ts"
import { createOwnedFolder } from "../../objects/owned-folder.ts"
import { SPEC_VARIABLE } from "../../protocol/wire/exec-files.ts"
import { ExecError, runExec } from "../../worker/exec/exec.ts"

export interface ExecOptions {
  spec?: string
  objectStore?: string
}

export const exec = async (context: Context, options: ExecOptions): Promise<number> => {
  const { backends, stderr } = context
  const path = options.spec ?? context.env[SPEC_VARIABLE] ?? ""
  if (path === "") throw new InputError(`name the spec to run: set ${SPEC_VARIABLE}, or give --spec KEY`)
  const { key, store } = parseSpecAddress(path)
  const config = await loadConfig(context, { objectStore: store ?? options.objectStore })
  const report = (message: string): void => void stderr.write(`ork exec: ${message}\n`)
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
    const objects = await backends.openObjects(config)
    const { executors, evaluator } = await backends.engineParts({ ...config, dataDir: folder }, objects, {
      folder: null,
      service: false,
    })
    try {
      const { clock } = backends
      const { env, cwd } = context
      const result = await runExec({ objects, key, executors, clock, env, cwd, folder, stopped: stopped.signal, warn: report })
      report(`${result.state}${result.error === undefined ? "" : `: ${result.error}`}`)
      return result.state === "success" ? 0 : result.exitCode || 1
    } finally {
      await evaluator.stop()
    }
  } catch (error) {
    if (error instanceof ExecError) throw new InputError(error.message)
    throw error
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
