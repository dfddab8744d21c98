// A durable function: it waits for a signal without a process, calls tasks, and continues after a crash. Run: node examples/sdk/order/main.ts
import { Ork, signal, task, txTask, workflow } from "ork"
import { z } from "zod"

const paid = signal("paid", z.object({ cents: z.int() }))

const charge = txTask(
  "charge",
  { input: z.object({ order: z.string(), cents: z.int() }) },
  async ({ order, cents }, { tx }) => {
    await tx.query("create table if not exists charges (id text, cents int)")
    await tx.query("insert into charges values ($1, $2)", [order, cents])
    return { order }
  },
)
const sendEmail = task("send-email", { input: z.object({ to: z.email() }) }, ({ to }) => ({ messageId: `mail to ${to}` }))

const order = workflow("order", { input: z.object({ id: z.string(), email: z.email() }) }, async ({ id, email }, step) => {
  const stock = await step.run("reserve", ({ attempt }) => ({ item: "book", attempt }), { retry: { attempts: 5 } })
  const payment = await step.waitFor(paid, { timeout: "3d" })
  if (payment === null) {
    await step.run("release", () => ({ released: stock.item }))
    return { shipped: false as const }
  }
  const [, mail] = await Promise.all([
    step.call(charge, { order: id, cents: payment.cents }),
    step.call(sendEmail, { to: email }),
  ])
  await step.sleep("before the survey", "100ms")
  return { shipped: true as const, item: stock.item, mail: mail.messageId }
})

await using ork = await Ork.open({
  database: process.env["DATABASE_URL"] ?? "sqlite:.ork/sdk.db",
  run: [order, charge, sendEmail],
})
const run = await ork.enqueue(order, { id: "o1", email: "ada@example.com" })
await ork.signal(run, paid, { cents: 4200 }, { key: "payment 1" })
console.log(JSON.stringify(await run.result()))
