import pg from "pg"
import type { DriverModule } from "../driver.ts"
import { openOrk } from "./ork.ts"

export const open: DriverModule["open"] = async ({ postgres, folder, workload }) => {
  const reader = new pg.Client({ connectionString: postgres })
  await reader.connect()
  const completed = async (): Promise<number> => {
    const { rows } = await reader.query<{ n: number }>("SELECT count(*)::int AS n FROM ork.jobs WHERE status = 'COMPLETED'")
    return rows[0]!.n
  }
  const driver = await openOrk({ database: postgres, folder, workload }, completed)
  return {
    ...driver,
    async close() {
      await driver.close()
      await reader.end()
    },
  }
}
