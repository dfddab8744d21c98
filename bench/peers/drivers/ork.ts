// Ork as a library: the engine in this process, through the public interface of the package that users install; or over HTTP (ork-http.ts).

import type * as Sdk from "../../../src/sdk/index.ts"
import { CHAIN_STEPS, type Driver, FAN_OUT, FUNCTION_STEPS, type RoundOptions } from "../driver.ts"
import type { Workload } from "../products.ts"

const PACKED = new URL("../../../dist-packages/ork/dist/sdk/index.js", import.meta.url).href
const { graph, Ork, task, workflow } = (await import(PACKED)) as typeof Sdk

let ran = 0
const noop = task("noop", {}, async () => {
  ran++
  return null
})
const nap = task("nap", {}, async (input) => {
  const { ms } = input as { ms: number }
  await new Promise((resolve) => setTimeout(resolve, ms))
  return null
})
const step = task("step", {}, async () => 1)
const list = task("list", {}, async () => Array.from({ length: FAN_OUT }, (_, i) => i))

const chain = graph("chain", {}, (g) => {
  let last = g.task("s0", step, { after: null })
  for (let i = 1; i < CHAIN_STEPS; i++) last = g.task(`s${i}`, step, { after: last })
  return last
})
const fanOut = graph("fan-out", {}, (g) => {
  const items = g.task("first", list, {})
  const all = g.each("each", items, step, (item) => ({ after: item }))
  return g.task("last", step, { after: all })
})
const diamond = graph("diamond", {}, (g) => {
  const a = g.task("a", step, { after: null })
  const b = g.task("b", step, { after: a })
  const c = g.task("c", step, { after: a })
  return g.task("d", step, { after: [b, c] })
})
const tenSteps = workflow("ten-steps", {}, async (_input, tools) => {
  for (let i = 0; i < FUNCTION_STEPS; i++) await tools.run(`s${i}`, async () => i)
  return null
})

const DEFINITIONS = {
  jobs: [noop],
  latency: [noop],
  graphs: [step, list, chain, fanOut, diamond],
  functions: [tenSteps],
  memory: [noop, nap],
  processes: [noop],
  million: [noop],
} satisfies { [Name in Workload]: readonly Sdk.Definition[] }
const BULK = 1000
/** Workloads that submit jobs before a worker runs. */
const SUBMITS_FIRST: readonly Workload[] = ["jobs", "million"]

interface OrkRound extends Pick<RoundOptions, "folder" | "workload" | "variant"> {
  database: string
}

/** Returns the number of completed jobs, read by a connection of its own. */
export type CountCompleted = () => Promise<number>

export const openOrk = async (round: OrkRound, completed: CountCompleted): Promise<Driver> => {
  if (round.variant.overHttp !== true) return await openEmbedded(round, completed)
  const { openOverHttp } = await import("./ork-http.ts")
  return await openOverHttp(round.database, round.folder, completed)
}

const openEmbedded = async (
  { database, folder, workload, variant: { concurrency } }: OrkRound,
  completed: CountCompleted,
): Promise<Driver> => {
  const objects = `file:${folder}/objects`
  // Other products connect before the measurement too.
  let producer = SUBMITS_FIRST.includes(workload) ? await Ork.open({ database, run: [], objects }) : null
  let engine: Sdk.Ork | null = null
  const settings = concurrency === undefined ? {} : { concurrency }
  const started = async (): Promise<Sdk.Ork> =>
    (engine ??= await Ork.open({ database, run: DEFINITIONS[workload], objects, ...settings }))
  /** The engine submits once it runs, as a program would: a second instance only takes memory. */
  const submitter = async (): Promise<Sdk.Ork> => engine ?? (producer ??= await Ork.open({ database, run: [], objects }))
  const until = async (count: number): Promise<void> => {
    while (ran < count || (await completed()) < count) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return {
    async submit(count) {
      const ork = await submitter()
      for (let left = count; left > 0; left -= BULK)
        await ork.enqueueAll(
          noop,
          Array.from({ length: Math.min(left, BULK) }, () => ({})),
        )
    },
    async drain(count) {
      await started()
      await until(count)
    },
    start: async () => void (await started()),
    one: async () => void (await (await (await started()).enqueue(noop, {})).result()),
    chain: async () => void (await (await (await started()).enqueue(chain, {})).result()),
    fanOut: async () => void (await (await (await started()).enqueue(fanOut, {})).result()),
    async diamonds(count) {
      const ork = await started()
      const runs = await Promise.all(Array.from({ length: count }, () => ork.enqueue(diamond, {})))
      await Promise.all(runs.map((run) => run.result()))
    },
    async functions(count) {
      const ork = await started()
      const runs = await Promise.all(Array.from({ length: count }, () => ork.enqueue(tenSteps, null)))
      await Promise.all(runs.map((run) => run.result()))
    },
    async inFlight(count, ms) {
      const ork = await started()
      const jobs = await ork.enqueueAll(
        nap,
        Array.from({ length: count }, () => ({ ms })),
      )
      await Promise.all(jobs.map((job) => job.result()))
    },
    ran: () => ran,
    async stop() {
      await engine?.stop()
      engine = null
    },
    async close() {
      await engine?.stop()
      await producer?.stop()
    },
  }
}
