// Durable functions that sleep, with the built package: they hold no slot, and almost no memory of their process.

import { execFile } from "node:child_process"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it } from "vitest"
import { REPO, temporaryFolder } from "../support/ork.ts"

const FUNCTIONS = 10_000
const MAX_BYTES = 2048

/** Prints the memory that each sleeping function uses, and the answer of a job that needs one of the four slots. */
const APP = `
import { Ork, task, workflow } from "ork"
const nap = workflow("nap", {}, async ({ n }, step) => {
  await step.sleep("long", "30d")
  return n
})
const echo = task("echo", {}, (input) => input)
const ork = await Ork.open({ database: "sqlite:app.db", objects: "file:objects", run: [nap, echo], concurrency: 4 })
const used = () => {
  globalThis.gc()
  globalThis.gc()
  return process.memoryUsage().heapUsed + process.memoryUsage().external
}
const sleep = async (from, to) => {
  for (let n = from; n < to; n++) await ork.enqueue(nap, { n })
  const run = await ork.enqueue(echo, "all asleep")
  await run.result()
}
// The first ones fill caches, which are bounded.
await sleep(0, 2000)
const before = used()
await sleep(2000, 2000 + ${FUNCTIONS})
const bytes = (used() - before) / ${FUNCTIONS}
const answer = await (await ork.enqueue(echo, "free")).result({ timeout: "30s" })
console.log(JSON.stringify({ bytes, answer }))
await ork.stop()
`

it(
  `${FUNCTIONS} sleeping functions hold no slot and use less than ${MAX_BYTES} bytes of memory each`,
  { timeout: 240_000 },
  async () => {
    const cwd = temporaryFolder()
    mkdirSync(join(cwd, "node_modules"))
    symlinkSync(REPO, join(cwd, "node_modules/ork"))
    writeFileSync(join(cwd, "app.mjs"), APP)
    const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", "app.mjs"], { cwd })
    const { bytes, answer } = JSON.parse(stdout) as { bytes: number; answer: string }
    expect(answer).toBe("free")
    expect(bytes).toBeLessThan(MAX_BYTES)
  },
)
