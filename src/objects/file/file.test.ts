import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { objectStoreSuite } from "../conformance/suite.ts"
import { FileObjectStore } from "./file.ts"

const setup = async () => {
  const root = await mkdtemp(join(tmpdir(), "ork-objects-"))
  return { root, store: new FileObjectStore(join(root, "store")), cleanup: () => rm(root, { recursive: true, force: true }) }
}

objectStoreSuite("file", setup)

test("deletePrefix keeps the folders around the prefix: others may be creating objects there", async () => {
  const { root, store, cleanup } = await setup()
  await store.put("runs/1/task/attempt/log", "x")
  await store.deletePrefix("runs/1/task/attempt/")
  expect(await readdir(join(root, "store", "runs", "1", "task"))).toEqual([])
  await store.deletePrefix("runs/1/")
  expect(await readdir(join(root, "store", "runs"))).toEqual([])
  await cleanup()
})

test("localPath is the path of the object", async () => {
  const { store, cleanup } = await setup()
  await mkdir(store.localPath("a"), { recursive: true })
  await writeFile(store.localPath("a/b"), "written directly")
  expect(Buffer.from((await store.get("a/b"))!).toString()).toBe("written directly")
  await cleanup()
})

test("check names the folder and the reason if it cannot be written", async () => {
  const { root, cleanup } = await setup()
  await writeFile(join(root, "file"), "")
  await expect(new FileObjectStore(join(root, "file")).check()).rejects.toThrow(
    /object store in .*file cannot be used: .*(ENOTDIR|EEXIST)/,
  )
  await cleanup()
})

test("a failed stream leaves no file", async () => {
  const { root, store, cleanup } = await setup()
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("half")
    throw new Error("the source broke")
  }
  await expect(store.putStream("a/b", broken())).rejects.toThrow("the source broke")
  expect(await readdir(join(root, "store", "a"))).toEqual([])
  await cleanup()
})
