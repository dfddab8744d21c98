// Jobs in a program: a typed task, a key, a delay, failed jobs again, a schedule and an awaited result. Run: node examples/sdk/jobs/main.ts
import { FatalError, Ork, RetryLater, task, TaskFailedError } from "ork"
import { z } from "zod"

let isMailServerUp = false

const sendEmail = task(
  "send-email",
  {
    input: z.object({ to: z.email(), tenant: z.string() }),
    retry: { attempts: 2, delay: "20ms" },
    timeout: "30s",
    group: ({ tenant }) => tenant,
    limit: { concurrency: 50, perGroup: 2, rate: [100, "1s"] },
  },
  ({ to }, { signal, log }) => {
    signal.throwIfAborted()
    log(`to ${to}`)
    if (!isMailServerUp) throw new RetryLater("20ms", "the mail server is busy")
    if (to.endsWith("@invalid.example")) throw new FatalError("no such address")
    return { text: `Hello ${to}` }
  },
)

await using ork = await Ork.open({ database: process.env["DATABASE_URL"] ?? "sqlite:.ork/sdk.db", run: [sendEmail] })
const input = { to: "ada@example.com", tenant: "acme" }
const job = await ork.enqueue(sendEmail, input, { key: "welcome:7", delay: "50ms", priority: 8 })
const same = await ork.enqueue(sendEmail, input, { key: "welcome:7" })
console.log(job.created, same.created)
await job.result().catch((error: unknown) => console.log(error instanceof TaskFailedError))

isMailServerUp = true
for await (const failed of ork.list({ def: sendEmail, status: ["failed"] })) await failed.retry()
console.log((await job.result()).text)

const wrong = await ork.enqueue(sendEmail, { ...input, to: "ada@invalid.example" })
await wrong.result().catch((error: unknown) => {
  if (error instanceof TaskFailedError) console.log(error.message.replace(` ${wrong.id}`, ""))
})

await ork.schedule("digest", "0 8 * * 1", sendEmail, input, { timezone: "Europe/Berlin" })
await ork.unschedule("digest")
