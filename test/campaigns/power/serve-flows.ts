// The built server on a folder of definitions.

import { type ChildProcess, spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { type Calls, serverAt } from "../../support/server.ts"

const ORK = join(import.meta.dirname, "../../../bin/ork")

export interface ServedFlows {
  /** The caller ends it. */
  child: ChildProcess
  /** Resolves when the server is ready. */
  ready: Promise<Calls>
}

/** Starts a server whose data folder is `root/.ork`. */
export const serveFlows = ({
  flows,
  root,
  env = {},
}: {
  flows: string
  root: string
  env?: Record<string, string>
}): ServedFlows => {
  const child = spawn(ORK, ["serve", "--port", "0", "--dir", flows], {
    cwd: root,
    stdio: ["ignore", "pipe", "ignore"],
    env: {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      ORK_DATA_DIR: join(root, ".ork"),
      ORK_LOG: "error",
      ...env,
    },
  })
  return { child, ready: untilReady(child, root) }
}

const untilReady = async (child: ChildProcess, root: string): Promise<Calls> => {
  let text = ""
  for await (const chunk of child.stdout!) {
    text += String(chunk)
    const url = /is ready at (http:\S+)/.exec(text)?.[1]
    if (url !== undefined && text.includes("admin key")) {
      return serverAt(url, readFileSync(join(root, ".ork/admin.key"), "utf8").trim())
    }
  }
  throw new Error(`the server ended: ${text}`)
}
