// The built command with failpoints, as the campaigns start it. It writes the name of each point that it reaches for the first time to file
// descriptor 3, and kills itself when it reaches ORK_FAILPOINT, `POINT#COUNT`, for the COUNT-th time.

import { writeSync } from "node:fs"
import { withFailpoints } from "./failpoints.ts"
import { runBuilt } from "../built.ts"

const REPORTS = 3

const [chosen = "", count = "1"] = (process.env["ORK_FAILPOINT"] ?? "").split("#")
const reached = new Map<string, number>()

const reach = (point: string): void => {
  const times = (reached.get(point) ?? 0) + 1
  reached.set(point, times)
  if (times === 1) writeSync(REPORTS, `${point}\n`)
  if (point === chosen && times === Number(count)) process.kill(process.pid, "SIGKILL")
}

await runBuilt((context) => withFailpoints(context, reach))
