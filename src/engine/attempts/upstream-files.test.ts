import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { UpstreamFiles } from "./upstream-files.ts"
import type { Output } from "../../core/model/change.ts"
import { MemoryObjectStore } from "../../objects/testing/memory.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

const claim = { runId: "run-1", attemptId: "attempt-1" } as unknown as TaskClaim

const setup = () => {
  const dataDir = mkdtempSync(join(tmpdir(), "ork-upstream-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const objects = new MemoryObjectStore()
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  /** Starts a server on the same folder. */
  const start = () => new UpstreamFiles({ objects, dataDir, log })
  const store = async (attempt: string, value: unknown): Promise<Output> => {
    const key = `runs/run-1/load/${attempt}/output.json`
    const text = JSON.stringify(value)
    await objects.put(key, text)
    return { key, bytes: text.length }
  }
  const read = (folder: string): unknown => JSON.parse(readFileSync(join(folder, "load.json"), "utf8"))
  return { start, store, read }
}

test("a restarted server passes the output of the latest attempt, not the file of an earlier one", async () => {
  const { start, store, read } = setup()
  const first = await start().write(claim, new Map([["load", await store("a", ["old"])]]))
  expect(read(first)).toEqual(["old"])
  const second = await start().write(claim, new Map([["load", await store("b", ["new"])]]))
  expect(read(second)).toEqual(["new"])
  expect(read(first), "an instance that still runs keeps its file").toEqual(["old"])
})

test("inline outputs of different attempts are in different folders", async () => {
  const { start, read } = setup()
  const files = start()
  const folders = await Promise.all(["old", "new"].map((inline) => files.write(claim, new Map([["load", { inline }]]))))
  expect(folders.map(read)).toEqual(["old", "new"])
})

test("all instances share the folder of the same outputs", async () => {
  const { start, store } = setup()
  const files = start()
  const outputs = new Map([["load", await store("a", [1])]])
  expect(await files.write(claim, outputs)).toBe(await files.write(claim, outputs))
})

test("an output that the object store has truncated fails the task, and is not passed on", async () => {
  const { start, store } = setup()
  const output = { ...(await store("a", [1, 2, 3])), bytes: 100 }
  await expect(start().write(claim, new Map([["load", output]]))).rejects.toThrow("has lost a part of the output")
})
