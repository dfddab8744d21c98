// Loads user code named by `--handlers FILE` or `handlers` in ork.yaml, for a server, a worker or `ork run`. The default export of a
// file has job handlers by queue; functions that the file registers by name can be called by tasks.

import { stat } from "node:fs/promises"
import { resolve } from "node:path"
import type { Context, HandlerFiles } from "./context.ts"
import { QUEUE_NAME } from "../../core/model/names.ts"
import { InputError } from "../terminal/errors.ts"
import { FUNCTION_EXECUTOR } from "../../core/model/function.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { Executor } from "../../executors/executor.ts"

export const readHandlers = async (context: Context, files: readonly string[]): Promise<HandlerFiles> => {
  const queues = new Map<string, string>()
  const functions = new Map<string, string>()
  const found = await Promise.all(files.map(async (file) => ({ file, ...(await readHandlerNames(context, file)) })))
  for (const { file, ...names } of found) {
    const path = resolve(context.cwd, file)
    for (const queue of names.queues) addUnique(queues, queue, path, `two handlers of the queue ${queue}`)
    for (const name of names.functions) addUnique(functions, name, path, `two functions ${name}`)
  }
  return { queues, functions }
}

/** Returns the executors together with the executors of the handlers. */
export const addHandlerExecutors = async (
  { backends }: Context,
  handlers: HandlerFiles,
  executors: ReadonlyMap<string, Executor>,
): Promise<ReadonlyMap<string, Executor>> => {
  if (handlers.queues.size + handlers.functions.size === 0) return executors
  const added = await backends.handlerExecutors(handlers, executors.get("node")!)
  return new Map([...executors, ...added.map((executor): [string, Executor] => [executor.name, executor])])
}

/** Rejects a workflow of `ork run` that calls a function which no handler file registers; it would fail later. */
export const rejectUnregistered = ({ nodes }: CompiledWorkflow, { functions }: HandlerFiles): void => {
  const unknown = nodes.filter((node) => node.executor === FUNCTION_EXECUTOR && !functions.has(node.function ?? ""))
  if (unknown.length === 0) return
  const known = functions.size === 0 ? "" : ` (${[...functions.keys()].toSorted().join(", ")} are registered)`
  throw new InputError(
    unknown
      .map((node) => `tasks.${node.name}: no handler file registers the function ${node.function}${known}`)
      .concat("name the file that registers it with --handlers FILE, or under handlers in ork.yaml")
      .join("\n"),
  )
}

const readHandlerNames = async (context: Context, file: string): Promise<{ queues: string[]; functions: string[] }> => {
  const path = resolve(context.cwd, file)
  if ((await stat(path).catch(() => null))?.isFile() !== true) throw new InputError(`--handlers: ${file} is not a file`)
  const names = await context.backends.handlerNames(path).catch((error: Error) => {
    throw new InputError(`--handlers: ${file} cannot be loaded: ${error.message}`)
  })
  if (names.queues.length + names.functions.length === 0) {
    throw new InputError(
      `--handlers: ${file} has no handlers; its default export must be { QUEUE: (payload, ctx) => … }, or it must register functions`,
    )
  }
  const bad = names.queues.find((queue) => !QUEUE_NAME.test(queue))
  if (bad !== undefined) {
    throw new InputError(`--handlers: "${bad}" in ${file} is not a valid queue name: use letters, digits and "_"`)
  }
  return names
}

const addUnique = (files: Map<string, string>, name: string, path: string, conflict: string): void => {
  const other = files.get(name)
  if (other === path) return
  if (other !== undefined) throw new InputError(`--handlers: there are ${conflict}: in ${other} and in ${path}`)
  files.set(name, path)
}
