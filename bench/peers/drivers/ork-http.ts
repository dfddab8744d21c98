// Jobs over HTTP: `ork serve` in a process of its own, the client and a worker in this one.

import type * as ClientSdk from "../../../src/sdk/client.ts"
import type * as Sdk from "../../../src/sdk/index.ts"
import { startOrkServer } from "../../ork-server.ts"
import type { Driver } from "../driver.ts"
import type { CountCompleted } from "./ork.ts"

const packed = (file: string): Promise<unknown> =>
  import(new URL(`../../../dist-packages/ork/dist/sdk/${file}`, import.meta.url).href)
const { startWorker, task } = (await packed("index.js")) as typeof Sdk
const { OrkClient } = (await packed("client.js")) as typeof ClientSdk

const BULK = 1000

export const openOverHttp = async (database: string, folder: string, completed: CountCompleted): Promise<Driver> => {
  const server = await startOrkServer(database, folder)
  const client = new OrkClient({ url: server.url, key: server.key })
  const noop = task("noop", {}, () => null)
  let ran = 0
  let worker: Awaited<ReturnType<typeof startWorker>> | null = null
  return {
    async submit(count) {
      for (let left = count; left > 0; left -= BULK)
        await client.enqueueAll(
          noop,
          Array.from({ length: Math.min(left, BULK) }, () => ({})),
        )
    },
    async drain(count) {
      const functions = { noop: () => void ran++ }
      worker ??= await startWorker({ server: server.url, apiKey: server.key, functions })
      while (ran < count || (await completed()) < count) await new Promise((resolve) => setTimeout(resolve, 5))
    },
    async close() {
      await worker?.stop()
      await server.stop()
    },
  }
}
