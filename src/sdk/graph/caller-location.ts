// Finds the place in a user's code that called the SDK, for messages.

import { relative } from "node:path"
import { fileURLToPath } from "node:url"

const LOCATION = /((?:file:\/\/)?(?:\/|[A-Za-z]:[\\/])[^()]*):(\d+):(\d+)\)?$/

/** Returns the first frame of the stack outside of this module and the given ones, such as `app.ts:12:5`; empty if there is none. */
export const callerLocation = (...modules: string[]): string => {
  const own = [import.meta.url, ...modules].map((module) => fileURLToPath(module))
  for (const frame of (new Error().stack ?? "").split("\n").slice(1)) {
    const [, file, line, column] = LOCATION.exec(frame.trim()) ?? []
    if (file === undefined) continue
    const path = file.startsWith("file:") ? fileURLToPath(file) : file
    if (own.includes(path)) continue
    const short = relative(process.cwd(), path)
    return `${short.startsWith("..") ? path : short}:${line}:${column}`
  }
  return ""
}
