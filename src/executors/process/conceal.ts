// Keeps the secrets in the environment and memory of this process from other processes of its user (native/conceal).

import { rmSync } from "node:fs"
import { messageOf } from "../../core/values/error-message.ts"
import { ATTEMPT_VARIABLE } from "../environment.ts"
import { concealLibrary } from "./native.ts"

let outcome: Promise<string | null> | null = null

/** Returns why the secrets can be read; null if they cannot. */
export const concealSecrets = (): Promise<string | null> => (outcome ??= conceal())

const conceal = async (): Promise<string | null> => {
  // An Ork inside of a task: the outer one finds its processes by their environment, and gave it no secrets of its own.
  if (process.env[ATTEMPT_VARIABLE] !== undefined) return null
  const library = await concealLibrary()
  if ("unavailable" in library) return library.unavailable
  try {
    process.dlopen({ exports: {} }, library.path)
    return null
  } catch (error) {
    return messageOf(error)
  } finally {
    if (library.temporary !== null) rmSync(library.temporary, { recursive: true, force: true })
  }
}
