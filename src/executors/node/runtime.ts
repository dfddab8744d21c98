// How a worker process for functions in TypeScript and JavaScript is started: the Node that Ork itself runs in.

import * as nodeModule from "node:module"
import { fileURLToPath } from "node:url"
import type { Runtime } from "../pool/runtime.ts"

/** TypeScript in the source tree, JavaScript after a build. */
const MAIN = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "./main.ts" : "./main.js", import.meta.url))

/** Throws where Node has no hooks, by which the files of tasks find `ork`. */
export const nodeArgv = (script: string): string[] => {
  if (!("registerHooks" in nodeModule)) {
    throw new Error(`functions need Node 22.15 or newer, and ${process.execPath} is ${process.version}`)
  }
  // Node before 22.18 strips types only when asked.
  const types = process.features.typescript === false ? ["--experimental-strip-types"] : []
  return [process.execPath, "--disable-warning=ExperimentalWarning", ...types, script]
}

export const nodeRuntime: Runtime = { name: "node", argv: () => nodeArgv(MAIN) }
