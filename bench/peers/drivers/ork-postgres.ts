import { fork } from "node:child_process"
import { once } from "node:events"
import pg from "pg"
import type { Driver, DriverModule } from "../driver.ts"
import { openOrk } from "./ork.ts"

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
    await Promise.all(children.map((child) => once(child, "message")))
    queued += jobs
    const from = performance.now()
    await driver.submit!(jobs)
    while ((await completed()) < queued) await new Promise((resolve) => setTimeout(resolve, 20))
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
