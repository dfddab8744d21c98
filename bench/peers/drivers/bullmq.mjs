import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq"
import { Redis } from "ioredis"
import { batches, sleep } from "./waiting.mjs"

const KEPT = { removeOnComplete: 1000, removeOnFail: 1000 }

export const open = async ({ redis, workload }) => {
  const flush = new Redis(redis)
  await flush.flushall()
  await flush.quit()
  const queue = new Queue("q", { connection: redis, defaultJobOptions: KEPT })
  await queue.waitUntilReady()
  const events = new QueueEvents("q", { connection: redis })
  await events.waitUntilReady()
  const flows = new FlowProducer({ connection: redis })
  const node = (name, data = {}, children = undefined) => ({ name, queueName: "q", data, opts: { ...KEPT }, children })

  let completed = 0
  let worker = null
  /** Resolved by the end of the last task of a graph, by key. */
  const ends = new Map()
  const handle = async ({ name, data }) => {
    if (name === "nap") await sleep(data.ms)
    else if (name === "expand") {
      const middle = Array.from({ length: data.width }, () => node("middle"))
      await flows.add(node("last", { key: data.key }, middle))
    }
  }
  const start = async () => {
    if (worker !== null) return
    worker = new Worker("q", handle, { connection: redis, concurrency: workload === "memory" ? 500 : 100 })
    worker.on("error", () => {})
    worker.on("completed", ({ name, data }) => {
      completed++
      if (name === "last") ends.get(data.key)?.()
    })
    await worker.waitUntilReady()
  }
  const untilCompleted = async (count) => {
    while (completed < count) await sleep(5)
  }
  let keys = 0
  const graph = async (add) => {
    const key = ++keys
    const ended = new Promise((resolve) => ends.set(key, resolve))
    await add(key)
    await ended
  }
  return {
    async submit(count) {
      for (const size of batches(count))
        await queue.addBulk(Array.from({ length: size }, (_, i) => ({ name: "noop", data: { i } })))
    },
    async drain(count) {
      await start()
      await untilCompleted(count)
    },
    start,
    async one() {
      const job = await queue.add("noop", {})
      await job.waitUntilFinished(events)
    },
    chain: (steps) =>
      graph(async (key) => {
        let first = node("middle")
        for (let i = 2; i < steps; i++) first = node("middle", {}, [first])
        await flows.add(node("last", { key }, [first]))
      }),
    fanOut: (width) => graph((key) => queue.add("expand", { key, width })),
    async diamonds(count) {
      await Promise.all(Array.from({ length: count }, () => graph((key) => queue.add("expand", { key, width: 2 }))))
    },
    async inFlight(count, ms) {
      const before = completed
      await queue.addBulk(Array.from({ length: count }, () => ({ name: "nap", data: { ms } })))
      await untilCompleted(before + count)
    },
    async close() {
      await worker?.close(true)
      await events.close()
      await queue.close()
      await flows.close()
    },
  }
}
