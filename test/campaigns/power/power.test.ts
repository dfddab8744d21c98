// A slice of `npm run power`, and its counterpart on a disk that ignores syncs.

import { join } from "node:path"
import { expect, test } from "vitest"
import { temporaryFolder } from "../../support/ork.ts"
import { cutPower } from "./campaign.ts"
import { recordWorkload } from "./workload.ts"

test("what clients were told survives a power loss, unless the disk ignores syncs", async () => {
  const folder = temporaryFolder()
  const recording = await recordWorkload(folder, 16)
  const scratch = join(folder, "scratch")
  expect(await cutPower(recording, { cuts: 200, seed: 1, scratch, resumeEvery: 100 })).toEqual({ tries: 200, violations: [] })
  const lossy = await cutPower(recording, { cuts: 20, seed: 1, scratch, ignoresSyncs: true })
  expect(lossy.violations.length).toBeGreaterThan(10)
})
