// usage: node bench/fanout.ts [ballast in MB]
// One task, 1,000 `true` processes, one task through the whole engine, compared with a bare loop over the same spawn helper, 16 at once.
// The ballast enlarges the heap of the engine's process, which must not change the rate.

import { join } from "node:path"
import { workflow } from "../src/core/testing.ts"
import { systemClock } from "../src/engine/system.ts"
import { HelperSupply } from "../src/executors/process/helper-supply.ts"
import { ProcessExecutor } from "../src/executors/process/process.ts"
import { FileObjectStore } from "../src/objects/file/file.ts"
import { makeEngine, openStore, print, put, request, tempFolder } from "./support.ts"

const COUNT = 1000
const AT_ONCE = 16
const ROUNDS = 3
const ballast = Array.from({ length: Number(process.argv[2] ?? 0) * 8 }, () =>
  Array.from({ length: 16_384 }, (_, i) => i + 0.5),
)

const folder = tempFolder()
const store = await openStore(join(folder.path, "ork.db"))
const objects = new FileObjectStore(join(folder.path, "objects"))
const executor = new ProcessExecutor({ objects, clock: systemClock, helper: "auto", dataDir: folder.path })
const engine = makeEngine(store, folder.path, { objects, executors: new Map([["process", executor]]), concurrency: AT_ONCE })
await engine.start()
const command = { argv: [{ lit: "true" }] }
const version = await put(
  store,
  workflow(
    {
      first: { command },
      each: { after: ["first"], command, fan: { parallel: { lit: COUNT }, reference: String(COUNT) } },
      last: { after: ["each"], command },
    },
    { name: "fanout" },
  ),
)

const throughEngine = async (): Promise<number> => {
  const startedAt = performance.now()
  const { run } = await engine.trigger(request(version))
  const { status } = await engine.waitForRun(run.id)
  if (status !== "success") throw new Error(`the run ended as ${status}`)
  return (COUNT + 2) / ((performance.now() - startedAt) / 1000)
}

const supply = new HelperSupply({ helper: "auto" }, "bench")
const helper = await supply.get()

/** Runs the same command with the spawn helper alone, with the same files and concurrency. */
const bare = async (): Promise<number> => {
  const startedAt = performance.now()
  let next = 0
  const one = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const path = join(folder.path, `bare-${next++}`)
      const start = {
        argv: ["true"],
        env: [`PATH=${process.env["PATH"]}`],
        cwd: folder.path,
        input: "{}",
        homeOfUser: false,
        stdinPath: `${path}.in`,
        logPath: `${path}.log`,
        outputPath: `${path}.out`,
        runAs: "",
        notRoot: false,
        memoryBytes: 0,
        cpuMillis: 0,
        secrets: [],
        pipes: "",
        maxLogBytes: 1 << 30,
      }
      const lost = (reason: unknown): void => reject(new Error(JSON.stringify(reason)))
      helper.run(start, { started: () => {}, failed: lost, exited: () => resolve(), lost })
    })
  const lane = async (): Promise<void> => {
    while (next < COUNT) await one()
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  return COUNT / ((performance.now() - startedAt) / 1000)
}

const median = (values: number[]): number => Math.round(values.toSorted((a, b) => a - b)[values.length >> 1]!)
await throughEngine()
await bare()
const rates: { engine: number[]; bare: number[] } = { engine: [], bare: [] }
for (let round = 0; round < ROUNDS; round++) {
  rates.bare.push(await bare())
  rates.engine.push(await throughEngine())
}
const [engineRate, bareRate] = [median(rates.engine), median(rates.bare)]
print({
  bench: "fanout",
  ballast_mb: ballast.length >> 3,
  helper: (await executor.describe()).helper,
  tasks_per_s: engineRate,
  bare_helper_per_s: bareRate,
  ratio: Number((engineRate / bareRate).toFixed(2)),
})
await engine.stop()
await supply.stop()
await store.close()
folder.remove()
process.exit(0)
