// Another service, or a serverless function: the same interface over HTTP, with fetch only. Run `ork serve` and worker.ts, then
// ORK_API_KEY=… node examples/sdk/client/main.ts
import type { Orkable } from "ork"
import { OrkClient } from "ork/client"
import { order, paid } from "./order.ts"

const ork: Orkable = new OrkClient()
const run = await ork.enqueue(order, { item: "book" }, { key: "order 7" })
await ork.signal(run, paid, { cents: 4200 }, { key: "payment 7" })
console.log(JSON.stringify(await run.result()))
