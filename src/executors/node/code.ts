// Loads the functions of tasks, and tells which files that took. `ork` can be imported from anywhere, installed or not.

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
    if (url.startsWith("file:") && !url.startsWith(OWN_FOLDER)) note(fileURLToPath(url))
    return next(url, context)
  },
})

const note = (path: string): void => {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found !== undefined) files.push([path, Math.floor(found.mtimeMs), found.size])
}

/** Files loaded since the last time. */
export const newFiles = (): CodeFile[] => {
  const taken = files
  files = []
  return taken
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
  // Also one that does not load is looked at for changes.
  note(path)
  const exported = (await import(pathToFileURL(path).href)) as { [name: string]: unknown }
  if (registered === true) return registeredCall(name ?? "", file)
  const call = name === null ? defaultOf(exported) : (exported[name] ?? membersOf(exported["default"])[name])
  if (typeof call === "function") return call as AnyFunction
  const there = [...new Set([...Object.keys(exported), ...Object.keys(membersOf(exported["default"]))])]
  const functionNames = there.filter((one) => one !== "default" && one !== "module.exports")
  const has = functionNames.length === 0 ? "it exports nothing by name" : `it exports ${functionNames.join(", ")}`
  throw new Error(
    name === null
      ? `${file} has no function as its default export; name one with \`function\`: ${has}`
      : `${file} has no function ${name}; ${has}`,
  )
}

const registeredCall = (name: string, file: string): AnyFunction => {
  const call = registeredFunctions().get(name)
  if (call === undefined) throw new Error(unknownFunction(name, registeredFunctions().keys(), `by ${file}`))
  return call
}

/** What a file of handlers has: functions by queue in its default export, and those that it registers. */
export interface HandlerNames {
  queues: string[]
  functions: string[]
}

export const loadNames = async (path: string): Promise<HandlerNames> => {
  const exported = (await import(pathToFileURL(path).href)) as { [name: string]: unknown }
  const members = membersOf(defaultOf(exported))
  return {
    queues: Object.keys(members).filter((name) => typeof members[name] === "function"),
    functions: [...registeredFunctions().keys()],
  }
}

/** A CommonJS module has its exports there. */
const membersOf = (value: unknown): { [name: string]: unknown } =>
  typeof value === "object" && value !== null ? (value as { [name: string]: unknown }) : {}

const defaultOf = (exported: { [name: string]: unknown }): unknown =>
  membersOf(exported["default"])["default"] ?? exported["default"]
