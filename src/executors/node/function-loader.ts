// Loads the functions of tasks, and records the files that were loaded. Makes `ork` importable from every file, even if it is
// not installed.

import { existsSync, statSync } from "node:fs"
import { registerHooks } from "node:module"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import type { AnyFunction } from "../../core/model/function.ts"
import type { CodeFile, TaskFrame } from "../pool/frames.ts"
import { registeredFunctions, unknownFunction } from "../registry.ts"

/** TypeScript in the source tree, JavaScript after a build. */
const EXTENSION = import.meta.url.endsWith(".ts") ? ".ts" : ".js"
const OWN_FOLDER = new URL("../../", import.meta.url).href
const OWN = `${OWN_FOLDER}sdk/index${EXTENSION}`

const functions = new Map<string, Promise<AnyFunction>>()
let files: CodeFile[] = []

registerHooks({
  resolve: (specifier, context, next) => (specifier === "ork" ? { url: OWN, shortCircuit: true } : next(specifier, context)),
  load(url, context, next) {
    if (url.startsWith("file:") && !url.startsWith(OWN_FOLDER)) recordFile(fileURLToPath(url))
    return next(url, context)
  },
})

const recordFile = (path: string): void => {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found !== undefined) files.push([path, Math.floor(found.mtimeMs), found.size])
}

/** Returns the files that were loaded since the last call. */
export const newFiles = (): CodeFile[] => {
  const loaded = files
  files = []
  return loaded
}

export const loadFunction = (frame: TaskFrame): Promise<AnyFunction> => {
  const key = `${frame.root}\0${frame.file}\0${frame.function ?? ""}\0${frame.registered === true}`
  let loading = functions.get(key)
  if (loading === undefined) functions.set(key, (loading = load(frame)))
  return loading
}

const load = async ({ root, file, function: name, registered }: TaskFrame): Promise<AnyFunction> => {
  const path = join(root, file)
  if (!existsSync(path)) throw new Error(`${file} does not exist in ${root}`)
  // Recorded even if it fails to load, so that a change is noticed.
  recordFile(path)
  const exported = (await import(pathToFileURL(path).href)) as { [name: string]: unknown }
  if (registered === true) return registeredCall(name ?? "", file)
  const call = name === null ? defaultOf(exported) : (exported[name] ?? membersOf(exported["default"])[name])
  if (typeof call === "function") return call as AnyFunction
  throw new Error(missingFunction(file, name, exported))
}

const missingFunction = (file: string, name: string | null, exported: { [name: string]: unknown }): string => {
  const names = [...new Set([...Object.keys(exported), ...Object.keys(membersOf(exported["default"]))])]
  const functionNames = names.filter((one) => one !== "default" && one !== "module.exports")
  const exports = functionNames.length === 0 ? "it exports nothing by name" : `it exports ${functionNames.join(", ")}`
  return name === null
    ? `${file} has no function as its default export; name one with \`function\`: ${exports}`
    : `${file} has no function ${name}; ${exports}`
}

const registeredCall = (name: string, file: string): AnyFunction => {
  const call = registeredFunctions().get(name)
  if (call === undefined) throw new Error(unknownFunction(name, registeredFunctions().keys(), `by ${file}`))
  return call
}

/** Names in a file of handlers: the queues in its default export, and the functions that it registers. */
export interface HandlerNames {
  queues: string[]
  functions: string[]
}

export const loadHandlerNames = async (path: string): Promise<HandlerNames> => {
  const exported = (await import(pathToFileURL(path).href)) as { [name: string]: unknown }
  const members = membersOf(defaultOf(exported))
  return {
    queues: Object.keys(members).filter((name) => typeof members[name] === "function"),
    functions: [...registeredFunctions().keys()],
  }
}

/** Returns the members of an object, such as the exports of a CommonJS module. */
const membersOf = (value: unknown): { [name: string]: unknown } =>
  typeof value === "object" && value !== null ? (value as { [name: string]: unknown }) : {}

const defaultOf = (exported: { [name: string]: unknown }): unknown =>
  membersOf(exported["default"])["default"] ?? exported["default"]
