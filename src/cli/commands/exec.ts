// `ork exec`: runs one attempt from its spec in the object store and ends with it; what a container runs. Exit 0 for success, else the
// task's own exit code, or 1.

import { rm } from "node:fs/promises"
import type { Context } from "../target/backends.ts"
import { InputError } from "../terminal/errors.ts"
import { onInterrupt } from "../run/interrupts.ts"
import { loadConfig } from "../target/settings.ts"
import { makeOwned } from "../../objects/owned-folder.ts"
import { SPEC_VARIABLE } from "../../protocol/wire/exec-files.ts"
import { ExecProblem, runExec } from "../../worker/exec/exec.ts"

export interface ExecOptions {
  spec?: string
  objectStore?: string
}

export const exec = async (context: Context, options: ExecOptions): Promise<number> => {
  const { backends, stderr } = context
  const path = options.spec ?? context.env[SPEC_VARIABLE] ?? ""
  if (path === "") throw new InputError(`nothing says what to run: set ${SPEC_VARIABLE}, or give --spec KEY`)
  const { key, store } = placeOf(path)
  const config = await loadConfig(context, { objectStore: store ?? options.objectStore })
  const say = (message: string): void => void stderr.write(`ork exec: ${message}\n`)
  // A container's own folder may be read-only.
  const folder = makeOwned("exec")
  const stopped = new AbortController()
  const unlisten = onInterrupt(
    () => {
      say("told to end: the task is being stopped")
      stopped.abort()
    },
    () => undefined,
  )
  try {
    const objects = await backends.openObjects(config)
    const { executors, evaluator } = await backends.engineParts({ ...config, dataDir: folder }, objects)
    try {
      const { clock } = backends
      const { env, cwd } = context
      const result = await runExec({ objects, key, executors, clock, env, cwd, folder, stopped: stopped.signal, warn: say })
      say(`${result.state}${result.error === undefined ? "" : `: ${result.error}`}`)
      return result.state === "success" ? 0 : result.exitCode || 1
    } finally {
      await evaluator.stop()
    }
  } catch (error) {
    if (error instanceof ExecProblem) throw new InputError(error.message)
    throw error
  } finally {
    unlisten()
    await rm(folder, { recursive: true, force: true })
  }
}

/** A whole address names the store too: its root, so that everything beside the spec can be reached. */
const placeOf = (path: string): { key: string; store?: string } => {
  if (path.startsWith("file:")) return { key: path.replace(/^file:(\/\/)?\/*/, ""), store: "file:/" }
  if (!/^(s3|gs):\/\//.test(path)) return { key: path }
  if (!URL.canParse(path)) throw new InputError(`${SPEC_VARIABLE}: ${path} is no address`)
  const url = new URL(path)
  return { key: decodeURIComponent(url.pathname.slice(1)), store: `${url.protocol}//${url.host}${url.search}` }
}
