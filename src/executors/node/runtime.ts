// The runtime for functions in TypeScript and JavaScript: worker processes run the same Node.js as Ork.

import * as nodeModule from "node:module"
import { fileURLToPath } from "node:url"
import type { Runtime } from "../pool/runtime.ts"

/** TypeScript in the source tree, JavaScript after a build. */
const MAIN = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "./main.ts" : "./main.js", import.meta.url))

/** Throws if Node.js has no module hooks, by which tasks import `ork`. */
export const nodeArgv = (script: string): string[] => {
  if (!("registerHooks" in nodeModule)) {
    throw new Error(`functions need Node.js 22.15 or newer, and ${process.execPath} is ${process.version}`)
  }
  // Node.js before 22.18 strips types only with a flag.
  const types = process.features.typescript === false ? ["--experimental-strip-types"] : []
  return [process.execPath, "--disable-warning=ExperimentalWarning", ...types, script]
}

export const nodeRuntime: Runtime = { name: "node", argv: () => nodeArgv(MAIN), codeKey: () => "" }
