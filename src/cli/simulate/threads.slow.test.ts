import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { SimulationBatch } from "./simulation-batch.ts"
import { readScenario } from "./scenario.ts"
import { playRuns } from "./tally.ts"
import { playAll } from "./threads.ts"

const TASKS = Array.from(
  { length: 20 },
  (_, i) => `  t${i}: { command: x, depends_on: [${i < 3 ? "" : `t${i - 3}`}], retries: ${i % 3} }`,
)

it("a thousand runs of twenty tasks have the same findings on all cores and on one", async () => {
  const cwd = await mkdtemp(join(tmpdir(), "ork-simulate-"))
  onTestFinished(() => rm(cwd, { recursive: true }))
  await writeFile(join(cwd, "flow.yaml"), `name: flow\ntasks:\n${TASKS.join("\n")}\n`)
  const options = { cwd, file: "flow.yaml", profiles: {}, param: [], paramsFile: undefined, caseName: undefined }
  const scenario = await readScenario(options)
  await using batch = await SimulationBatch.prepare(scenario)
  expect(await playAll(scenario, 1, 1000)).toEqual(await playRuns(batch, 1, 1000))
}, 300_000)
