// Tests: the real engine on a database in memory, under a clock that passes only when the test says so; two weeks take milliseconds.
// Run: node examples/sdk/testing/main.ts
import assert from "node:assert/strict"
import { signal, task, workflow } from "ork"
import { testOrk } from "ork/test"
import { z } from "zod"
import { etl, load } from "../graph/etl.ts"

const paid = signal("paid", z.object({ cents: z.int() }))
const sendEmail = task("send-email", { input: z.object({ to: z.email() }) }, (): { messageId: string } => {
  throw new Error("tests send no mail")
})
const order = workflow("order", { input: z.object({ to: z.email() }) }, async ({ to }, step) => {
  const payment = await step.waitFor(paid, { timeout: "3d" })
  if (payment === null) return { shipped: false, mail: null }
  const mail = await step.call(sendEmail, { to })
  await step.sleep("before the survey", "14d")
  return { shipped: true, mail: mail.messageId }
})

await using ork = await testOrk({ run: [order, sendEmail, etl], now: "2026-01-01" })
const mails = ork.mock(sendEmail, () => ({ messageId: "m1" }))
const run = await ork.enqueue(order, { to: "ada@example.com" })
await ork.advance("2d")
await ork.signal(run, paid, { cents: 100 })
await ork.advance("1s")
await ork.crash() // a new engine takes over the same database
await ork.advance("14d")
assert.deepEqual(await run.result(), { shipped: true, mail: "m1" })
assert.equal(mails.calls.length, 1)

// A task of a graph that fails twice: its retries are those of the definition.
ork.mock(load, ({ path }, { attempt }) => {
  if (attempt < 3) throw new Error("busy")
  return { table: path }
})
const loading = await ork.enqueue(etl, { day: "2026-01-31" })
await ork.advance("1m")
const attempts = (await ork.tasks(loading)).filter(({ kind }) => kind === "task").map((each) => `${each.name} ${each.attempts}`)
console.log(attempts.toSorted().join(", "))
