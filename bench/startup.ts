// usage: node bench/startup.ts   Measures `ork run` of a one-task workflow from start to exit, warm; the floor is `node -e 0`.

import { spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { print, tempFolder } from "./support.ts"

const ROUNDS = 15
const folder = tempFolder()
const file = join(folder.path, "one.yaml")
writeFileSync(file, "name: one\ntasks:\n  only:\n    command: 'true'\n")
const ork = join(import.meta.dirname, "../bin/ork")

const median = (command: string, args: string[]): number => {
  const times = Array.from({ length: ROUNDS }, () => {
    const started = performance.now()
    const { status, stderr } = spawnSync(command, args, { cwd: folder.path, stdio: ["ignore", "ignore", "pipe"] })
    if (status !== 0) throw new Error(`${command} ended with ${status}: ${stderr.toString()}`)
    return performance.now() - started
  })
  return Math.round(times.toSorted((a, b) => a - b)[ROUNDS >> 1]!)
}

const ms = median(ork, ["run", file])
const floor = median(process.execPath, ["-e", "0"])
print({ bench: "startup", ork_run_ms: ms, node_ms: floor, ratio: Number((ms / floor).toFixed(2)) })
folder.remove()
