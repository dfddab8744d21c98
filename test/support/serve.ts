// `ork serve` of the built command for scripts and benchmarks, outside vitest.

import { type ChildProcess, spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { type Calls, serverAt } from "./server.ts"

const ORK = join(import.meta.dirname, "../../bin/ork")

export interface Served extends Calls {
  child: ChildProcess
}

/** Starts a server in a folder on a free port. The caller ends `child`. */
export const serve = async (cwd: string): Promise<Served> => {
  const child = spawn(ORK, ["serve", "--port", "0"], { cwd, stdio: ["ignore", "pipe", "inherit"] })
  let text = ""
  for await (const chunk of child.stdout) {
    text += String(chunk)
    const url = /is ready at (http:\S+)/.exec(text)?.[1]
    if (url !== undefined) return { child, ...serverAt(url, readFileSync(join(cwd, ".ork/admin.key"), "utf8").trim()) }
  }
  throw new Error(`the server ended: ${text}`)
}
