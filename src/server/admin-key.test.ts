import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { adminKeyFile, ensureAdminKey, readAdminKey } from "./admin-key.ts"
import { systemRandom } from "../engine/system.ts"

const folder = (): string => {
  const made = mkdtempSync(join(tmpdir(), "ork-key-"))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

const modeOf = (file: string): number => statSync(file).mode & 0o777

test("a key is made once, in a folder that need not be there, for this user alone", async () => {
  const dataDir = join(folder(), ".ork")
  expect(await readAdminKey(dataDir)).toBeNull()
  const { key, file } = await ensureAdminKey(dataDir, systemRandom)
  expect(key).toMatch(/^ork_[0-9a-f]{64}$/)
  expect(modeOf(file)).toBe(0o600)
  expect(await ensureAdminKey(dataDir, systemRandom)).toEqual({ key, file })
  expect(await readAdminKey(dataDir)).toBe(key)
})

test("a file that others may read is closed to them", async () => {
  const dataDir = folder()
  writeFileSync(adminKeyFile(dataDir), "a-key-that-somebody-wrote\n")
  chmodSync(adminKeyFile(dataDir), 0o644)
  expect((await ensureAdminKey(dataDir, systemRandom)).key).toBe("a-key-that-somebody-wrote")
  expect(modeOf(adminKeyFile(dataDir))).toBe(0o600)
})

test("a file with too short a key is refused, with what to do", async () => {
  const dataDir = folder()
  writeFileSync(adminKeyFile(dataDir), "short\n")
  await expect(ensureAdminKey(dataDir, systemRandom)).rejects.toThrow(/holds no key of 16 characters or more; remove it/)
})

test("of several that start together all get the same key", async () => {
  const dataDir = folder()
  const made = await Promise.all([1, 2, 3].map(() => ensureAdminKey(dataDir, systemRandom)))
  expect(new Set(made.map(({ key }) => key)).size).toBe(1)
})
