// Loads the functions of tasks, and tells which files that took. `ork` can be imported from anywhere, installed or not.

import { existsSync, statSync } from "node:fs"
import * as nodeModule from "node:module"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import type { TaskFunction } from "../../core/function.ts"
import type { Json } from "../../core/json.ts"
import type { CodeFile, TaskFrame } from "../pool/frames.ts"

/** TypeScript in the source tree, JavaScript after a build. */
const EXTENSION = import.meta.url.endsWith(".ts") ? ".ts" : ".js"
const OWN_FOLDER = new URL("../../", import.meta.url).href
const OWN = `${OWN_FOLDER}sdk/index${EXTENSION}`

type Call = TaskFunction<Json>

const functions = new Map<string, Promise<Call>>()
let files: CodeFile[] = []

if (typeof nodeModule.registerHooks !== "function") {
  throw new Error(`functions need Node 22.15 or newer, and ${process.execPath} is ${process.version}`)
}
nodeModule.registerHooks({
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

export const loadFunction = (frame: TaskFrame): Promise<Call> => {
  const key = `${frame.root}\0${frame.file}\0${frame.function ?? ""}`
  let loading = functions.get(key)
  if (loading === undefined) functions.set(key, (loading = load(frame)))
  return loading
}

const load = async ({ root, file, function: name }: TaskFrame): Promise<Call> => {
  const path = join(root, file)
  if (!existsSync(path)) throw new Error(`${file} does not exist in ${root}`)
  // Also one that does not load is looked at for changes.
  note(path)
  const exported = (await import(pathToFileURL(path).href)) as { [name: string]: unknown }
  const call = name === null ? defaultOf(exported) : (exported[name] ?? membersOf(exported["default"])[name])
  if (typeof call === "function") return call as Call
  const there = [...new Set([...Object.keys(exported), ...Object.keys(membersOf(exported["default"]))])]
  const functionNames = there.filter((one) => one !== "default" && one !== "module.exports")
  const has = functionNames.length === 0 ? "it exports nothing by name" : `it exports ${functionNames.join(", ")}`
  throw new Error(
    name === null
      ? `${file} has no function as its default export; name one with \`function\`: ${has}`
      : `${file} has no function ${name}; ${has}`,
  )
}

/** The functions of its default export, by name. */
export const loadNames = async (path: string): Promise<string[]> => {
  const exported = (await import(pathToFileURL(path).href)) as { [name: string]: unknown }
  const members = membersOf(defaultOf(exported))
  return Object.keys(members).filter((name) => typeof members[name] === "function")
}

/** A CommonJS module has its exports there. */
const membersOf = (value: unknown): { [name: string]: unknown } =>
  typeof value === "object" && value !== null ? (value as { [name: string]: unknown }) : {}

const defaultOf = (exported: { [name: string]: unknown }): unknown =>
  membersOf(exported["default"])["default"] ?? exported["default"]
