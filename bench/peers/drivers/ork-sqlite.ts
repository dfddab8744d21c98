import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import type { DriverModule } from "../driver.ts"
import { openOrk } from "./ork.ts"

export const open: DriverModule["open"] = async ({ folder, workload, variant }) => {
  const path = join(folder, "ork.db")
  let reader: DatabaseSync | null = null
  const completed = async (): Promise<number> => {
    reader ??= new DatabaseSync(path, { readOnly: true })
    return Number(reader.prepare("SELECT count(*) AS n FROM jobs WHERE status = 'COMPLETED'").get()!["n"])
  }
  const driver = await openOrk({ database: `sqlite:${path}`, folder, workload, variant }, completed)
  return {
    ...driver,
    async close() {
      reader?.close()
      await driver.close()
    },
  }
}
