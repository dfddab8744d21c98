import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { adminKeyFile, ensureAdminKey, readAdminKey } from "./admin-key.ts"
import { systemRandom } from "../engine/system.ts"

const folder = (): string => {
  const path = mkdtempSync(join(tmpdir(), "ork-key-"))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

const modeOf = (file: string): number => statSync(file).mode & 0o777

test("a key is created once, with its folder, and only its owner can read it", async () => {
  const dataDir = join(folder(), ".ork")
  expect(await readAdminKey(dataDir)).toBeNull()
  const { key, file } = await ensureAdminKey(dataDir, systemRandom)
  expect(key).toMatch(/^ork_[0-9a-f]{64}$/)
  expect(modeOf(file)).toBe(0o600)
  expect(await ensureAdminKey(dataDir, systemRandom)).toEqual({ key, file })
  expect(await readAdminKey(dataDir)).toBe(key)
})

test("read permissions of other users are removed", async () => {
  const dataDir = folder()
  writeFileSync(adminKeyFile(dataDir), "a-key-that-somebody-wrote\n")
  chmodSync(adminKeyFile(dataDir), 0o644)
  expect((await ensureAdminKey(dataDir, systemRandom)).key).toBe("a-key-that-somebody-wrote")
  expect(modeOf(adminKeyFile(dataDir))).toBe(0o600)
})

test("a key that is too short is rejected with advice", async () => {
  const dataDir = folder()
  writeFileSync(adminKeyFile(dataDir), "short\n")
  await expect(ensureAdminKey(dataDir, systemRandom)).rejects.toThrow(
    /does not contain a key of at least 16 characters; remove it/,
  )
})

test("servers that start together use the same key", async () => {
  const dataDir = folder()
  const keys = await Promise.all([1, 2, 3].map(() => ensureAdminKey(dataDir, systemRandom)))
  expect(new Set(keys.map(({ key }) => key)).size).toBe(1)
})
