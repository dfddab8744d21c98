// Functions by the names that a program gives them. One for each process: `--handlers FILE` fills it in a worker process, a program of
// the user's own before it starts a worker.

import { type AnyFunction, FUNCTION_NAME_HINT, isFunctionName, type TaskFunction } from "../core/model/function.ts"
import type { JsonObject } from "../core/model/json.ts"

const registry = new Map<string, AnyFunction>()

/** From now on tasks may call the function: `{ executor: node, function: NAME }`, or `{ executor: NAME }`. */
export const register = <Input = JsonObject, Output = unknown>(name: string, call: TaskFunction<Input, Output>): void => {
  checkFunction(name, call)
  if (registry.has(name)) throw new Error(`a function ${name} is registered already`)
  registry.set(name, call)
}

export const registeredFunctions = (): ReadonlyMap<string, AnyFunction> => registry

export const checkFunction = (name: string, call: unknown): void => {
  if (!isFunctionName(name)) throw new TypeError(`${JSON.stringify(name)} is not a valid function name: ${FUNCTION_NAME_HINT}`)
  if (typeof call !== "function") throw new TypeError(`what is registered as ${name} is no function`)
}

/** For whoever asks for a function that is not there. */
export const unknownFunction = (name: string, there: Iterable<string>, where: string): string => {
  const names = [...there].toSorted()
  const known = names.length === 0 ? "there are none" : `there are ${names.join(", ")}`
  return `no function ${name} is registered ${where}; ${known}`
}
