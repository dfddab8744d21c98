// The built command with failpoints, as the campaigns start it. It writes the name of each point that it reaches for the first time to file
// descriptor 3, with LATER before it if it reaches it after its start, and kills itself when it reaches ORK_FAILPOINT, `POINT#COUNT#MS`,
// for the COUNT-th time from MS milliseconds on. It also writes the operations that have points, with OFFERED before them.

import { writeSync } from "node:fs"
import { withFailpoints } from "./failpoints.ts"
import { LATER, OFFERED } from "./points.ts"
import { runBuilt } from "../built.ts"

const REPORTS = 3
/** Reached after this time, a point does not belong to the start. */
const START_MS = 4000

const [chosen = "", count = "1", ms = "0"] = (process.env["ORK_FAILPOINT"] ?? "").split("#")
const reported = new Set<string>()
let left = Number(count)

const report = (line: string): void => {
  if (!reported.has(line)) writeSync(REPORTS, `${line}\n`)
  reported.add(line)
}

const reach = (point: string): void => {
  report(point)
  if (performance.now() >= START_MS) report(`${LATER}${point}`)
  if (point !== chosen || performance.now() < Number(ms)) return
  left -= 1
  if (left === 0) process.kill(process.pid, "SIGKILL")
}

await runBuilt((context) => withFailpoints(context, { reach, offer: (operation) => report(`${OFFERED}${operation}`) }))
