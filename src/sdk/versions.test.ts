// Definitions that are pinned to a version.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { explain, explainJob } from "../engine/services/explain.ts"
import { systemClock, systemRandom } from "../engine/system.ts"
import { openSqlite } from "../store/sqlite/sqlite.ts"
import type { RunId } from "../core/model/ids.ts"
import { type Definition, task, workflow } from "./definitions.ts"
import { Ork } from "./ork.ts"

const jobOf = (version?: string) => task("job", { ...(version !== undefined && { version }) }, () => `job ${version}`)
const orderOf = (version?: string) =>
  workflow("order", { ...(version !== undefined && { version }) }, async (_, step) => {
    await step.sleep("a moment", 1)
    return `order ${version}`
  })
const other = task("other", {}, () => "other")

const setup = () => {
  const folder = mkdtempSync(join(tmpdir(), "ork-versions-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, "app.db")
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  const open = async (...run: Definition[]): Promise<Ork> => {
    const ork = await Ork.open({ database: `sqlite:${path}`, objects: `file:${folder}`, run, log })
    onTestFinished(() => ork.stop({ grace: 0 }))
    return ork
  }
  return { path, open }
}

it("work of one version is claimed only by a process with that version, and the others explain why it waits", async () => {
  const { path, open } = setup()
  const producer = await open()
  const first = await open(jobOf("1"), orderOf("1"), other)
  const job = await producer.enqueue(jobOf("2"), null)
  const run = await producer.enqueue(orderOf("2"), {})
  // It is younger than both, and in the same queue.
  await (await producer.enqueue(other, null)).result({ timeout: "20s" })
  expect(await (await first.enqueue(orderOf("1"), {})).result({ timeout: "20s" })).toBe("order 1")

  const store = await openSqlite({ path, clock: systemClock, random: systemRandom, isDead: () => false })
  onTestFinished(() => store.close())
  const options = { store, isAlive: () => true }
  const because = "because no live process runs version 2"
  expect((await explainJob(options, (await store.getJob(job.id))!)).sentence).toContain(
    `${because} of job, to which it is pinned`,
  )
  expect((await explain(options, run.id as RunId)).map(({ sentence }) => sentence).join()).toContain(`${because} of order`)

  await open(jobOf("2"), orderOf("2"))
  expect(await job.result({ timeout: "20s" })).toBe("job 2")
  expect(await run.result({ timeout: "20s" })).toBe("order 2")
})

it("work without a version is not claimed by a process with one", async () => {
  const { open } = setup()
  await open(jobOf("1"), other)
  const producer = await open()
  const job = await producer.enqueue(jobOf(), null)
  await (await producer.enqueue(other, null)).result({ timeout: "20s" })
  expect((await job.refresh()).status).toBe("ready")
  await open(jobOf())
  expect(await job.result({ timeout: "20s" })).toBe("job undefined")
})

it("a version is a short text, and no part of the name", () => {
  expect(() => jobOf("1 beta")).toThrow('job: version is "1 beta"; use at most 64 letters')
  expect(() => task("job@1", {}, () => null)).toThrow("give the version as an option")
})
