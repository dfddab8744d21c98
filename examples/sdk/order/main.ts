// A durable function: it waits for a signal without a process, and continues after a crash. Run: node examples/sdk/order/main.ts
import { Ork, signal, workflow } from "ork"

const paid = signal<{ cents: number }>("paid")

const order = workflow("order", {}, async (_input, step) => {
  const reserved = await step.run("reserve", () => ({ item: "book" }))
  const payment = await step.waitFor(paid, { timeout: "3d" })
  if (payment === null) return { shipped: false, item: reserved.item }
  await step.sleep("pack", "100ms")
  return { shipped: true, item: reserved.item }
})

await using ork = await Ork.open({ database: process.env["DATABASE_URL"] ?? "sqlite:.ork/sdk.db", run: [order] })
const run = await ork.enqueue(order, {})
await ork.signal(run, paid, { cents: 4200 }, { key: "payment 1" })
console.log(JSON.stringify(await run.result()))
