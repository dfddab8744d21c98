// What a program does wrong: each has an error class of its own with advice, and writes nothing.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { expect, it, onTestFinished, vi } from "vitest"
import { task, workflow } from "./definitions.ts"
import { ConflictError, NewerDatabaseError, NotFoundError, NotJsonError, OrkError, StoppedError } from "./errors.ts"
import { Ork } from "./ork.ts"
import { testOrk } from "./test.ts"

const plain = task("plain", {}, () => null)

const temporaryFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "ork-bad-input-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

it.each([
  ["a function", () => () => 1, "it is a function"],
  ["a bigint", () => 1n, "BigInt"],
  [
    "a cycle",
    () => {
      const list: unknown[] = []
      list.push(list)
      return list
    },
    "circular",
  ],
])("an input that is %s is no JSON, and creates no job", async (_, create, reason) => {
  await using ork = await testOrk({ run: [plain] })
  const rejected = ork.enqueueAll(plain, [1, create()])
  await expect(rejected).rejects.toThrow(NotJsonError)
  await expect(rejected).rejects.toThrow(reason)
  await expect(rejected).rejects.toThrow("use texts, numbers, booleans, null, and lists and objects of them")
  expect(await Array.fromAsync(ork.list({ def: plain }))).toEqual([])
})

it("a result of a step that is not JSON fails the step at once, and the function can catch it", async () => {
  let tries = 0
  const flow = workflow("flow", {}, async (_, step) => {
    const count = (): number => {
      tries++
      return 1n as unknown as number
    }
    return await step.run("count", count).catch((error: unknown) => error instanceof NotJsonError)
  })
  await using ork = await testOrk({ run: [flow] })
  const run = await ork.enqueue(flow, {})
  await ork.advance("1h")
  expect(await run.result()).toBe(true)
  expect(tries).toBe(1)
})

it("a result of a task that is not JSON fails its job with the reason", async () => {
  const big = task("big", { retry: { attempts: 1 } }, () => 1n as unknown as number)
  await using ork = await testOrk({ run: [big] })
  const job = await ork.enqueue(big, null)
  await ork.advance("1s")
  await expect(job.result()).rejects.toThrow("cannot be written as JSON")
})

it("a database of a newer Ork is left as it is", async () => {
  const file = join(temporaryFolder(), "app.db")
  const options = { database: `sqlite:${file}`, objects: `file:${file}-objects`, run: [] }
  await (await Ork.open(options)).stop()
  const database = new DatabaseSync(file)
  const version = (database.prepare("PRAGMA user_version").get() as { user_version: number }).user_version
  database.exec(`PRAGMA user_version = ${version + 1000}`)
  database.close()
  const opened = Ork.open(options)
  await expect(opened).rejects.toThrow(NewerDatabaseError)
  await expect(opened).rejects.toThrow("run the newer Ork that wrote it")
})

it("an engine that was stopped does nothing more", async () => {
  const file = join(temporaryFolder(), "app.db")
  const ork = await Ork.open({ database: `sqlite:${file}`, objects: `file:${file}-objects`, run: [plain] })
  await ork.stop()
  await expect(ork.enqueue(plain, null)).rejects.toThrow(StoppedError)
  await expect(ork.get("01890a5d-ac96-774b-bcce-b302099a8057")).rejects.toThrow("call Ork.open again")
  expect(() => ork.events()).toThrow(StoppedError)
})

it("unknown runs, steps and names are named", async () => {
  const flow = workflow("flow", {}, async (_, step) => await step.sleep("a while", "1h"))
  const warn = vi.fn<(fields: object, message: string) => void>()
  await using ork = await testOrk({ run: [flow], log: { info: () => {}, warn, error: () => {} } })
  const run = await ork.enqueue(flow, {})
  await ork.advance("2h")
  await expect(run.retry({ from: "none" })).rejects.toThrow(ConflictError)
  await expect(ork.approve("none", "x")).rejects.toThrow(NotFoundError)
  expect(await ork.get("none")).toBeNull()
  await ork.enqueue(plain, null)
  expect(warn).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({ function: "plain" }),
    "no live process runs the function of a job; it waits until one does",
  )
})

it("errors of the SDK are recognised across copies of the package", () => {
  const other = new (class NotJsonCopy extends OrkError {
    static {
      this.prototype.name = "NotJsonError"
    }
  })("x")
  expect(other).toBeInstanceOf(NotJsonError)
  expect(new NotJsonError("x")).toBeInstanceOf(OrkError)
})
