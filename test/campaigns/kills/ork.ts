// The built command with failpoints, as the campaigns start it. It writes the name of each point that it reaches for the first time to file
// descriptor 3, and kills itself when it reaches ORK_FAILPOINT, `POINT#COUNT#MS`, for the COUNT-th time from MS milliseconds on.

import { writeSync } from "node:fs"
import { withFailpoints } from "./failpoints.ts"
import { runBuilt } from "../built.ts"

const REPORTS = 3

const [chosen = "", count = "1", ms = "0"] = (process.env["ORK_FAILPOINT"] ?? "").split("#")
const reported = new Set<string>()
let left = Number(count)

const reach = (point: string): void => {
  if (!reported.has(point)) writeSync(REPORTS, `${point}\n`)
  reported.add(point)
  if (point !== chosen || performance.now() < Number(ms)) return
  left -= 1
  if (left === 0) process.kill(process.pid, "SIGKILL")
}

await runBuilt((context) => withFailpoints(context, reach))
