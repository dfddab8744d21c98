import { execFileSync } from "node:child_process"
import { chmod, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, test } from "vitest"
import { nativeHelper } from "./native.ts"

const available = "path" in (await nativeHelper())
if (!available) process.stderr.write("SKIPPED: tests of compiling the spawn helper: there is no C compiler\n")

const withFolder = async (body: (folder: string) => Promise<void>): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), "ork-native-"))
  try {
    await body(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

describe.runIf(available)("the compiled spawn helper", () => {
  test("is one program even if several processes compile it at the same time", () =>
    withFolder(async (folder) => {
      const cache = join(folder, "cache")
      const found = await Promise.all([nativeHelper(cache), nativeHelper(cache), nativeHelper(cache)])
      expect(new Set(found.map((one) => JSON.stringify(one))).size).toBe(1)
      expect(await readdir(cache)).toHaveLength(1)
    }))

  test("is compiled again if others could have changed it", () =>
    withFolder(async (folder) => {
      const first = (await nativeHelper(folder)) as { path: string }
      await chmod(first.path, 0o777)
      await nativeHelper(folder)
      expect((await stat(first.path)).mode & 0o022).toBe(0)
    }))

  test("is in a private folder if the cache folder cannot be used", () =>
    withFolder(async (folder) => {
      await writeFile(join(folder, "file"), "")
      const found = (await nativeHelper(join(folder, "file", "cache"))) as { path: string; temporary: string }
      expect(found.path.startsWith(found.temporary)).toBe(true)
      expect((await stat(found.temporary)).mode & 0o077).toBe(0)
      await rm(found.temporary, { recursive: true })
    }))

  test("compiles without a warning", () =>
    withFolder(async (folder) => {
      const sources = fileURLToPath(new URL("../../../native/", import.meta.url))
      const files = (await readdir(sources)).filter((name) => name.endsWith(".c")).map((name) => join(sources, name))
      execFileSync("cc", ["-O2", "-Wall", "-Wextra", "-Werror", "-o", join(folder, "out"), ...files])
    }))
})
