// Cuts the power at random points of a recording.

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Rng } from "../../sim/rng.ts"
import { findViolations } from "./check.ts"
import { Disk } from "./disk.ts"
import { OP, parseLog } from "./log.ts"
import { findUnfinished } from "./resume.ts"
import type { Recording, Told } from "./workload.ts"

export interface Cuts {
  cuts: number
  seed: number
  /** A folder for databases. */
  scratch: string
  /** After each n-th cut, a server is started on what is left. */
  resumeEvery?: number
  /** A disk that confirms syncs and does nothing. */
  ignoresSyncs?: boolean
}

export interface CutResult {
  tries: number
  /** Cuts after which something was missing or damaged, with the first problem. */
  violations: { record: number; problem: string }[]
}

export const cutPower = async (
  recording: Recording,
  { cuts, seed, scratch, resumeEvery = Infinity, ignoresSyncs = false }: Cuts,
): Promise<CutResult> => {
  const { root } = recording
  const log = readFileSync(recording.file)
  const rng = new Rng("power", seed)
  let records = 0
  for (const _ of parseLog(log)) records += 1
  const points = Array.from({ length: cuts }, () => rng.int(1, records)).toSorted((a, b) => a - b)
  const disk = new Disk(root, { ignoresSyncs })
  const told: Told[] = []
  const result: CutResult = { tries: 0, violations: [] }
  let record = 0
  for (const each of parseLog(log)) {
    if (each.op === OP.told) told.push(JSON.parse(each.data.toString()) as Told)
    else disk.replay(each)
    record += 1
    for (; points[result.tries] === record; result.tries++) {
      const files = disk.losePower(new Rng("power", seed, result.tries))
      const problems = await findViolations({ dataDir: join(root, ".ork"), files }, told, scratch)
      if (result.tries % resumeEvery === resumeEvery - 1) {
        problems.push(...(await findUnfinished(recording, files, told, scratch)))
      }
      const [problem] = problems
      if (problem !== undefined) result.violations.push({ record, problem })
    }
  }
  return result
}
