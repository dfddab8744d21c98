import { fork } from "node:child_process"
import { once } from "node:events"
import pg from "pg"
import type { Driver, DriverModule } from "../driver.ts"
import { openOrk } from "./ork.ts"

const POLL_MS = 10
/** Jobs that run before the measurement, after which the processes are as fast as they get. */
const WARM_UP = 40_000

const pause = (): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, POLL_MS))

export const open: DriverModule["open"] = async ({ postgres, folder, workload, variant }) => {
  const reader = new pg.Client({ connectionString: postgres })
  await reader.connect()
  const completed = async (): Promise<number> => {
    const { rows } = await reader.query<{ n: number }>("SELECT count(*)::int AS n FROM ork.jobs WHERE status = 'COMPLETED'")
    return rows[0]!.n
  }
  const driver = await openOrk({ database: postgres, folder, workload, variant }, completed)
  let queued = 0
  const processes: Driver["processes"] = async (count, jobs) => {
    const worker = new URL("ork-process.ts", import.meta.url)
    const children = Array.from({ length: count }, () => fork(worker, [postgres, folder]))
    const ran = children.map(() => 0)
    for (const [i, child] of children.entries()) child.on("message", (reported: number) => (ran[i] = reported))
    await Promise.all(children.map((child) => once(child, "message")))
    /** Submits jobs, and resolves when they have completed: a count of rows during the measurement would slow it down. */
    const run = async (more: number): Promise<void> => {
      const wanted = ran.reduce((sum, n) => sum + n, more)
      queued += more
      await driver.submit!(more)
      while (ran.reduce((sum, n) => sum + n) < wanted) await pause()
      while ((await completed()) < queued) await pause()
    }
    await run(WARM_UP)
    const from = performance.now()
    await run(jobs)
    const ms = performance.now() - from
    const exits = children.map((child) => once(child, "exit"))
    for (const child of children) child.send("stop")
    await Promise.all(exits)
    return ms
  }
  return {
    ...driver,
    processes,
    async close() {
      await driver.close()
      await reader.end()
    },
  }
}
