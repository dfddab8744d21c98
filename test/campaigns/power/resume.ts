// Starts a server on what a power loss has left, and waits until all work that clients were told about has ended.

import { once } from "node:events"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { messageOf } from "../../../src/core/values/error-message.ts"
import { serveFlows } from "./serve-flows.ts"
import type { Recording, Told } from "./workload.ts"

const DEADLINE_MS = 60_000

/** Returns what is wrong; nothing if every run that was started ends as a success. `folder` is overwritten. */
export const findUnfinished = async (
  { root, flows }: Recording,
  files: Map<string, Buffer>,
  told: readonly Told[],
  folder: string,
): Promise<string[]> => {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const [path, bytes] of files) {
    const copy = join(folder, relative(root, path))
    mkdirSync(dirname(copy), { recursive: true })
    writeFileSync(copy, bytes)
  }
  const { child, ready } = serveFlows({ flows, root: folder })
  const finish = async (): Promise<string[]> => {
    const server = await ready
    for (const each of told) if (each.kind === "run") await server.reaches(each.id, "success")
    return []
  }
  try {
    return await Promise.race([finish(), delay(DEADLINE_MS, ["runs do not end after the power loss"], { ref: false })])
  } catch (error) {
    return [`a server cannot start: ${messageOf(error)}`]
  } finally {
    child.kill("SIGKILL")
    await once(child, "exit")
  }
}
