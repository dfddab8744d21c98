// `--handlers FILE` of `ork serve` and `ork worker`: functions by queue name that run the jobs which have no task of their own.

import { stat } from "node:fs/promises"
import { resolve } from "node:path"
import type { Context } from "./backends.ts"
import { InputError } from "./errors.ts"
import type { Executor } from "../executors/executor.ts"

export interface Handlers {
  queues: string[]
  executors: ReadonlyMap<string, Executor>
}

/** The executors with that of the handlers among them, and the queues whose jobs it runs. */
export const withHandlers = async (
  context: Context,
  file: string | undefined,
  executors: ReadonlyMap<string, Executor>,
): Promise<Handlers> => {
  if (file === undefined) return { queues: [], executors }
  const path = resolve(context.cwd, file)
  if ((await stat(path).catch(() => null))?.isFile() !== true) throw new InputError(`--handlers: ${file} is no file`)
  const { queues, executor } = await context.backends.openHandlers(path, executors.get("node")!).catch((error: Error) => {
    throw new InputError(`--handlers: ${file} cannot be loaded: ${error.message}`)
  })
  if (queues.length === 0) {
    throw new InputError(`--handlers: ${file} has no handlers; its default export must be { QUEUE: (payload, ctx) => … }`)
  }
  const bad = queues.find((queue) => !/^[A-Za-z0-9_]{1,64}$/.test(queue))
  if (bad !== undefined) throw new InputError(`--handlers: "${bad}" in ${file} is no name of a queue: letters, digits and "_"`)
  return { queues, executors: new Map([...executors, [executor.name, executor]]) }
}
