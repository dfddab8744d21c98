// A program with a durable function that shares the database of a server in the same folder: it reserves, calls a job, retries a step,
// and waits for a signal. Its run ends when the signal arrives and a file named `ready` exists.

import { type ChildProcess, spawn } from "node:child_process"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const REPO = join(import.meta.dirname, "../..")

const PROGRAM = `
import { existsSync } from "node:fs"
import { Ork, signal, task, workflow } from "ork"
const paid = signal("paid")
const label = task("print-label", {}, (input) => ({ label: "L-" + input.parcel }))
const order = workflow("order", {}, async (input, step) => {
  const reserved = await step.run("reserve", ({ attempt }) => {
    if (attempt === 1) throw new Error("the warehouse did not respond")
    return { item: input.item }
  }, { retry: { attempts: 3, delay: "50ms" } })
  const printed = await step.call(label, { parcel: reserved.item })
  const payment = await step.waitFor(paid, { timeout: "3d" })
  await step.run("ship", () => {
    if (!existsSync("ready")) throw new Error("the carrier is closed")
    return { shipped: printed.label, cents: payment.cents }
  }, { retry: { attempts: 1 } })
  return { shipped: true }
})
const ork = await Ork.open({ database: "sqlite:.ork/ork.db", objects: "file:.ork/objects", run: [order, label] })
const run = await ork.enqueue(order, { item: "book" })
console.log("run " + run.id)
process.on("SIGTERM", () => void ork.stop().then(() => process.exit(0)))
`

export interface OrderProgram {
  child: ChildProcess
  /** Run of the function. */
  runId: string
}

/** Starts the program in the folder of a server; resolves when the run exists. The caller ends `child`. */
export const startOrderProgram = async (cwd: string): Promise<OrderProgram> => {
  mkdirSync(join(cwd, "node_modules"), { recursive: true })
  symlinkSync(REPO, join(cwd, "node_modules/ork"))
  writeFileSync(join(cwd, "order.mjs"), PROGRAM)
  const child = spawn(process.execPath, ["order.mjs"], { cwd, stdio: ["ignore", "pipe", "inherit"] })
  let text = ""
  for await (const chunk of child.stdout) {
    text += String(chunk)
    const runId = /^run (\S+)$/m.exec(text)?.[1]
    if (runId !== undefined) return { child, runId }
  }
  throw new Error(`the program ended: ${text}`)
}
