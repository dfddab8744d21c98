import { Logger, makeWorkerUtils, run } from "graphile-worker"
import pg from "pg"
import { batches, sleep, untilCount, untilRan } from "./waiting.mjs"

const logger = new Logger(() => () => {})
const THROUGHPUT = {
  concurrentJobs: 24,
  maxPoolSize: 20,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
}
/** The local queue delays single jobs. */
const LATENCY = { concurrentJobs: 24, maxPoolSize: 26 }
const MEMORY = { ...THROUGHPUT, concurrentJobs: 500 }
const LEFT = "SELECT count(*) FROM graphile_worker._private_jobs"

export const open = async ({ postgres, workload }) => {
  const observer = new pg.Client({ connectionString: postgres })
  await observer.connect()
  const utils = await makeWorkerUtils({ connectionString: postgres, logger })
  await utils.migrate()
  const settings = workload === "latency" ? LATENCY : workload === "memory" ? MEMORY : THROUGHPUT
  let runner = null
  let ran = 0
  const start = async () => {
    runner ??= await run({
      preset: { worker: { connectionString: postgres, logger, ...settings } },
      taskList: { noop: async () => void ran++, nap: async ({ ms }) => await sleep(ms) },
      parsedCronItems: [],
      noHandleSignals: true,
    })
  }
  return {
    async submit(count) {
      for (const size of batches(count))
        await utils.addJobs(Array.from({ length: size }, (_, i) => ({ identifier: "noop", payload: { i } })))
    },
    async drain(count) {
      await start()
      await untilRan(() => ran, count)
      await untilCount(observer, `SELECT ${count} - (${LEFT})`, count)
    },
    start,
    async one() {
      const job = await utils.addJob("noop", {})
      const gone = `SELECT 1 - count(*) FROM graphile_worker._private_jobs WHERE id = ${job.id}`
      await untilCount(observer, gone, 1, 1)
    },
    async inFlight(count, ms) {
      await utils.addJobs(Array.from({ length: count }, () => ({ identifier: "nap", payload: { ms } })))
      await untilCount(observer, `SELECT ${count} - (${LEFT})`, count)
    },
    async close() {
      await runner?.stop()
      await utils.release()
      await observer.end()
    },
  }
}
