// A program that claims calls of its functions from a server and runs them in its own process:
//   ORK_URL=http://127.0.0.1:4000 ORK_API_KEY=… node functions/worker.ts

import { startWorker } from "ork"
import "./registered.ts"

const worker = await startWorker({
  name: "my-app",
  handlers: { emails: async ({ to }: { to: string }, ctx) => ({ sent: to, job: ctx.taskName }) },
})
console.log(`claims tasks from ${worker.server}`)
process.once("SIGTERM", () => void worker.stop())
