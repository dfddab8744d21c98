// The load of the event-driven specification: 100 runs of 5 tasks that take 0.1 s, without any setting. It states 155 tasks per second and
// a p99 below 700 ms. These hold on a quiet machine; on a busy one, the rate is compared with that of bare processes in the same test.

import { spawn } from "node:child_process"
import { once } from "node:events"
import { expect, test } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"
import { tasksOf } from "../support/worker.ts"

const RUNS = 100
const TASKS = ["t1", "t2", "t3", "t4", "t5"]
/** Bare processes per second from which on the machine is quiet. With the concurrency below, at most 640 are possible. */
const QUIET_RATE = 450
const FLOOR_CONCURRENCY = 64
/** On a busy machine, Ork reaches at least this part of the rate of bare processes. */
const FLOOR_PART = 0.3

/** Starts as many processes of 0.1 s as the load has tasks; returns how many end per second. */
const bareRate = async (): Promise<number> => {
  const startedAt = performance.now()
  let left = RUNS * TASKS.length
  const startOne = async (): Promise<void> => {
    while (left-- > 0) await once(spawn("sleep", ["0.1"], { stdio: "ignore" }), "exit")
  }
  await Promise.all(Array.from({ length: FLOOR_CONCURRENCY }, startOne))
  return (RUNS * TASKS.length) / ((performance.now() - startedAt) / 1000)
}

interface Times {
  started_at: string
  finished_at: string
}

test("100 runs of 5 tasks of 0.1 s exceed 155 tasks per second, with a p99 below 700 ms", { timeout: 180_000 }, async () => {
  const server = await startServer([], { cwd: temporaryFolder() })
  await server.deploy({ name: "load", tasks: Object.fromEntries(TASKS.map((name) => [name, { command: ["sleep", "0.1"] }])) })
  await server.reaches(await server.trigger("load"), "success")
  const floors = [await bareRate()]
  const runs = await Promise.all(Array.from({ length: RUNS }, () => server.trigger("load")))
  for (const id of runs) await server.reaches(id, "success")
  floors.push(await bareRate())

  const latencies: number[] = []
  let [first, last] = [Infinity, 0]
  for (const id of runs) {
    const created = Date.parse((await server.call("GET", `/runs/${id}`)).body["created_at"] as string)
    for (const task of (await tasksOf(server, id)) as unknown as Times[]) {
      const finished = Date.parse(task.finished_at)
      latencies.push(finished - created)
      first = Math.min(first, created)
      last = Math.max(last, finished)
    }
  }
  expect(latencies).toHaveLength(RUNS * TASKS.length)
  const rate = latencies.length / ((last - first) / 1000)
  const p99 = latencies.toSorted((a, b) => a - b)[Math.floor(latencies.length * 0.99)]!
  const floor = Math.min(...floors)
  const figures = `${Math.round(rate)} tasks/s, p99 ${p99} ms; bare processes ${floors.map(Math.round).join(" and ")}/s`
  expect(rate, figures).toBeGreaterThan(FLOOR_PART * floor)
  if (floor < QUIET_RATE) return
  expect(rate, figures).toBeGreaterThan(155)
  expect(p99, figures).toBeLessThan(700)
})
