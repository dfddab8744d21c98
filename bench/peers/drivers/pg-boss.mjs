import { randomUUID } from "node:crypto"
import pg from "pg"
import { PgBoss } from "pg-boss"
import { batches, sleep, untilCount, untilRan } from "./waiting.mjs"

const THROUGHPUT = { batchSize: 500, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }
const LATENCY = { batchSize: 1, localConcurrency: 10, pollingIntervalSeconds: 0.5 }
const COMPLETED = "SELECT count(*) FROM pgboss.job WHERE state = 'completed'"

export const open = async ({ postgres, workload }) => {
  const boss = new PgBoss({ connectionString: postgres, useListenNotify: true, max: 10 })
  boss.on("error", () => {})
  await boss.start()
  await boss.createQueue("q", { notify: true })
  const observer = new pg.Client({ connectionString: postgres })
  await observer.connect()
  let worker = null
  let ran = 0
  const start = async () => {
    worker ??= await boss.work("q", workload === "latency" ? LATENCY : THROUGHPUT, async (jobs) => {
      ran += jobs.length
      const longest = Math.max(0, ...jobs.map(({ data }) => data?.ms ?? 0))
      if (longest > 0) await sleep(longest)
    })
  }
  return {
    async submit(count) {
      for (const size of batches(count))
        await boss.insert(
          "q",
          Array.from({ length: size }, (_, i) => ({ data: { i } })),
        )
    },
    async drain(count) {
      await start()
      await untilRan(() => ran, count)
      await untilCount(observer, COMPLETED, count)
    },
    start,
    async one() {
      const id = randomUUID()
      await boss.send("q", {}, { id })
      await untilCount(observer, `${COMPLETED} AND id = '${id}'`, 1, 1)
    },
    async inFlight(count, ms) {
      await boss.insert(
        "q",
        Array.from({ length: count }, () => ({ data: { ms } })),
      )
      await untilCount(observer, `${COMPLETED} AND data ? 'ms'`, count)
    },
    async close() {
      await observer.end()
      await boss.stop({ graceful: false })
    },
  }
}
