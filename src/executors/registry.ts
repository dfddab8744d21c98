// The registered functions of this process by name. `--handlers FILE` fills it in a worker process, and a user's program before
// it starts a worker.

import { type AnyFunction, FUNCTION_NAME_HINT, isFunctionName, type TaskFunction } from "../core/model/function.ts"
import type { JsonObject } from "../core/values/json.ts"

const registry = new Map<string, AnyFunction>()

/** Makes the function available to tasks, as `{ executor: node, function: NAME }` or `{ executor: NAME }`. */
export const register = <Input = JsonObject, Output = unknown>(name: string, call: TaskFunction<Input, Output>): void => {
  checkFunction(name, call)
  if (registry.has(name)) throw new Error(`a function ${name} is already registered`)
  registry.set(name, call)
}

export const registeredFunctions = (): ReadonlyMap<string, AnyFunction> => registry

export const checkFunction = (name: string, call: unknown): void => {
  if (!isFunctionName(name)) throw new TypeError(`${JSON.stringify(name)} is not a valid function name: ${FUNCTION_NAME_HINT}`)
  if (typeof call !== "function") throw new TypeError(`the value registered as ${name} is not a function`)
}

/** Returns the error for a function that is not registered. `where`: `here`, or `by FILE`. */
export const unknownFunction = (name: string, registered: Iterable<string>, where: string): string => {
  const names = [...registered].toSorted()
  const others = names.length === 0 ? "there are none" : `there are ${names.join(", ")}`
  return `no function ${name} is registered ${where}; ${others}`
}
