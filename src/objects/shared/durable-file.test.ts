import { mkdtemp, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { createDurableFolder } from "./durable-file.ts"

it("creates a folder with its parents for this user only, and leaves one that exists", async () => {
  const root = await mkdtemp(join(tmpdir(), "ork-durable-"))
  onTestFinished(() => rm(root, { recursive: true }))
  const folder = join(root, "a", "b", "c")
  await Promise.all([createDurableFolder(folder), createDurableFolder(join(root, "a", "b"))])
  await createDurableFolder(folder)
  for (const path of [join(root, "a"), folder]) expect((await stat(path)).mode & 0o777).toBe(0o700)
  await writeFile(join(root, "file"), "")
  await expect(createDurableFolder(join(root, "file"))).rejects.toThrow("EEXIST")
  await expect(createDurableFolder(join(root, "file", "below"))).rejects.toThrow("ENOTDIR")
})

it.skipIf(process.platform !== "linux")("ends below a folder that refuses new ones", async () => {
  await expect(createDurableFolder("/proc/none/below")).rejects.toThrow("ENOENT")
})
