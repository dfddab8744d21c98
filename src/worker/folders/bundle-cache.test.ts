import { existsSync, mkdtempSync, readdirSync, rmSync, utimesSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test, vi } from "vitest"
import { BundleCache } from "./bundle-cache.ts"
import { createBundle } from "../../objects/bundles/bundles.ts"

const HOUR = 3_600_000

const setup = (maxCount: number) => {
  const dataDir = mkdtempSync(join(tmpdir(), "ork-bundles-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const cache = new BundleCache(dataDir, { maxAgeMs: 24 * HOUR, maxCount, maxBytes: Number.POSITIVE_INFINITY })
  const bundles = ["a", "b", "c"].map((path) => createBundle([{ path, bytes: Buffer.from(path), executable: false }]))
  const read = vi.fn((hash: string) => Promise.resolve<Uint8Array>(bundles.find((one) => one.hash === hash)!.bytes))
  const now = Date.now()
  const use = (i: number): Promise<string> => cache.use(bundles[i]!.hash, now, read).folder(bundles[i]!.hash)
  const release = (i: number): void => cache.release(bundles[i]!.hash)
  const left = (): string[] =>
    readdirSync(join(dataDir, "bundles")).map((hash) => "abc"[bundles.findIndex((one) => one.hash === hash)]!)
  return { cache, read, now, use, release, left }
}

test("a bundle is downloaded once, and again after it was removed", async () => {
  const { cache, read, now, use, release } = setup(0)
  const folder = await use(0)
  await use(0)
  release(0)
  release(0)
  expect(read).toHaveBeenCalledTimes(1)
  await cache.sweep(now)
  expect(existsSync(folder), "it was used recently").toBe(true)
  utimesSync(folder, now / 1000 - 7200, now / 1000 - 7200)
  await cache.sweep(now)
  expect(existsSync(folder)).toBe(false)
  expect(existsSync(join(await use(0), "a"))).toBe(true)
  expect(read).toHaveBeenCalledTimes(2)
})

test("a task that begins while its bundle is being removed gets all of its files", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "ork-bundles-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const files = Array.from({ length: 500 }, (_, i) => ({ path: `f${i}`, bytes: Buffer.from("x"), executable: false }))
  const { hash, bytes } = createBundle(files)
  const cache = new BundleCache(dataDir, { maxAgeMs: HOUR, maxCount: 0, maxBytes: 0 })
  const use = (): Promise<string> => cache.use(hash, Date.now(), () => Promise.resolve(bytes)).folder(hash)
  const count = (folder: string): number => (existsSync(folder) ? readdirSync(folder).length : 0)
  const folder = await use()
  cache.release(hash)
  utimesSync(folder, Date.now() / 1000 - 7200, Date.now() / 1000 - 7200)
  const sweeping = cache.sweep(Date.now())
  while (count(folder) === files.length) await new Promise(setImmediate)
  const used = await use()
  await sweeping
  expect(count(used)).toBe(files.length)
})

test("beyond the limit the oldest bundles are removed, but none that is in use", async () => {
  const { cache, now, use, release, left } = setup(1)
  for (const [i, hours] of [5, 4, 3].entries()) {
    const folder = await use(i)
    const at = now / 1000 - hours * 3600
    utimesSync(folder, at, at)
  }
  release(1)
  release(2)
  await cache.sweep(now)
  expect(left().toSorted()).toEqual(["a", "c"])
  release(0)
  await cache.sweep(now + 2 * HOUR)
  expect(left(), "the sweep marked it as used").toEqual(["a"])
})
