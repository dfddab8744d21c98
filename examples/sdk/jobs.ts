// Jobs in a program: a typed task, a key, a delay, a schedule and an awaited result. Run: node examples/sdk/jobs.ts
import { Ork, task } from "ork"

const greet = task("greet", { retry: { attempts: 3, delay: "200ms" } }, (input, { attempt }) => {
  const { name } = input as { name: string }
  return { text: `Hello ${name}`, attempt }
})

await using ork = await Ork.open({ database: process.env["DATABASE_URL"] ?? "sqlite:.ork/sdk.db", run: [greet] })
const job = await ork.enqueue(greet, { name: "Ada" }, { delay: "50ms" })
console.log((await job.result()).text)
await ork.schedule("greetings", "0 8 * * 1", greet, { name: "team" }, { timezone: "Europe/Berlin" })
await ork.unschedule("greetings")
