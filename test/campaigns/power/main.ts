// `npm run power -- [--cuts N] [--runs N] [--seed N]`: records servers on SQLite under load and cuts the power N times (10,000), 1,000
// times in each recording of N runs (150). After every 100th cut, a server is started on what is left, and must finish all runs. The
// last line counts tries and violations; exit code 1 if there was a violation. The log of a recording with a violation stays.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { cutPower } from "./campaign.ts"
import { recordWorkload } from "./workload.ts"
import { count } from "../campaign.ts"

const CUTS_PER_RECORDING = 1000
const RESUME_EVERY = 100

const { values } = parseArgs({
  options: {
    cuts: { type: "string", default: "10000" },
    runs: { type: "string", default: "150" },
    seed: { type: "string", default: "1" },
  },
})

const total = count("cuts", values.cuts)
const runs = count("runs", values.runs)
let tries = 0
let violations = 0
for (let seed = count("seed", values.seed); tries < total; seed++) {
  const folder = mkdtempSync(join(tmpdir(), "ork-power-"))
  const recording = await recordWorkload(folder, runs)
  const cuts = Math.min(CUTS_PER_RECORDING, total - tries)
  const result = await cutPower(recording, { cuts, seed, scratch: join(folder, "scratch"), resumeEvery: RESUME_EVERY })
  tries += result.tries
  violations += result.violations.length
  for (const { record, problem } of result.violations.slice(0, 5))
    console.log(`after record ${record} of ${recording.file}: ${problem}`)
  console.log(`seed ${seed}: ${result.tries} cuts, ${result.violations.length} violations`)
  if (result.violations.length === 0) rmSync(folder, { recursive: true, force: true })
}
console.log(`power: ${tries} tries, ${violations} violations`)
process.exit(violations === 0 ? 0 : 1)
