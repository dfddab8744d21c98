// `--handlers FILE`, also `handlers` in ork.yaml: code of the user's own for a server, a worker or a run. A file's default export has
// functions by queue name, for jobs without a task of their own; what it registers under a name, tasks may call.

import { stat } from "node:fs/promises"
import { resolve } from "node:path"
import type { Context, HandlerFiles } from "./backends.ts"
import { InputError } from "../terminal/errors.ts"
import { FUNCTION_EXECUTOR } from "../../core/model/function.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { Executor } from "../../executors/executor.ts"

/** Where functions lie: the file by queue, and by name. */
export type Handlers = HandlerFiles

export const readHandlers = async (context: Context, files: readonly string[]): Promise<Handlers> => {
  const queues = new Map<string, string>()
  const functions = new Map<string, string>()
  const found = await Promise.all(files.map(async (file) => ({ file, ...(await namesIn(context, file)) })))
  for (const { file, ...names } of found) {
    const path = resolve(context.cwd, file)
    for (const queue of names.queues) add(queues, queue, path, `two handlers of the queue ${queue}`)
    for (const name of names.functions) add(functions, name, path, `two functions ${name}`)
  }
  return { queues, functions }
}

/** The executors with those of the handlers among them. */
export const withHandlers = async (
  { backends }: Context,
  handlers: Handlers,
  executors: ReadonlyMap<string, Executor>,
): Promise<ReadonlyMap<string, Executor>> => {
  if (handlers.queues.size + handlers.functions.size === 0) return executors
  const made = await backends.handlerExecutors(handlers, executors.get("node")!)
  return new Map([...executors, ...made.map((one): [string, Executor] => [one.name, one])])
}

/** A run of one's own calls functions of one's own: what is missing would only fail it later. */
export const refuseUnknown = ({ nodes }: CompiledWorkflow, { functions }: Handlers): void => {
  const unknown = nodes.filter((node) => node.executor === FUNCTION_EXECUTOR && !functions.has(node.function ?? ""))
  if (unknown.length === 0) return
  const known = functions.size === 0 ? "" : ` (${[...functions.keys()].toSorted().join(", ")} are registered)`
  throw new InputError(
    unknown
      .map((node) => `tasks.${node.name}: nothing here registers the function ${node.function}${known}`)
      .concat("name the file that registers it with --handlers FILE, or under handlers in ork.yaml")
      .join("\n"),
  )
}

const namesIn = async (context: Context, file: string): Promise<{ queues: string[]; functions: string[] }> => {
  const path = resolve(context.cwd, file)
  if ((await stat(path).catch(() => null))?.isFile() !== true) throw new InputError(`--handlers: ${file} is no file`)
  const names = await context.backends.handlerNames(path).catch((error: Error) => {
    throw new InputError(`--handlers: ${file} cannot be loaded: ${error.message}`)
  })
  if (names.queues.length + names.functions.length === 0) {
    throw new InputError(
      `--handlers: ${file} has no handlers; its default export must be { QUEUE: (payload, ctx) => … }, or it must register functions`,
    )
  }
  const bad = names.queues.find((queue) => !/^[A-Za-z0-9_]{1,64}$/.test(queue))
  if (bad !== undefined) throw new InputError(`--handlers: "${bad}" in ${file} is no name of a queue: letters, digits and "_"`)
  return names
}

const add = (to: Map<string, string>, name: string, path: string, what: string): void => {
  const other = to.get(name)
  if (other === path) return
  if (other !== undefined) throw new InputError(`--handlers: there are ${what}: in ${other} and in ${path}`)
  to.set(name, path)
}
