import { execFileSync } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { BundleFolders, createBundle } from "./bundles.ts"
import { InvalidArchive, readTar, type TarFile, writeTar } from "./tar.ts"

const file = (path: string, text = path, executable = false): TarFile => ({ path, bytes: Buffer.from(text), executable })

const folder = (): string => {
  const path = mkdtempSync(join(tmpdir(), "ork-bundles-"))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

const LONG = `${"deep/".repeat(25)}file.ts`

test("an archive contains the files that were written, in any order", () => {
  const files = [file("b.ts"), file("a/x.sh", "echo", true), file("empty", ""), file(LONG, "x".repeat(1000))]
  expect(
    readTar(writeTar(files)).map(({ path, executable, bytes }) => [path, executable, Buffer.from(bytes).toString()]),
  ).toEqual([
    ["a/x.sh", true, "echo"],
    ["b.ts", false, "b.ts"],
    [LONG, false, "x".repeat(1000)],
    ["empty", false, ""],
  ])
  expect(createBundle(files).hash).toBe(createBundle(files.toReversed()).hash)
  expect(createBundle(files).hash).not.toBe(createBundle([...files, file("c")]).hash)
})

test("the tar command reads an archive", () => {
  const path = join(folder(), "x.tar")
  writeFileSync(path, writeTar([file("a.ts"), file(LONG)]))
  expect(execFileSync("tar", ["tf", path]).toString().trim().split("\n")).toEqual(["a.ts", LONG])
})

test("an archive with paths out of its folder, with other than regular files, or with damage is rejected", () => {
  for (const path of ["../x", "/etc/passwd", "a/../../x", "./a", "a//b", "a\\b"]) {
    expect(() => readTar(writeTar([file(path)])), path).toThrow(InvalidArchive)
  }
  const whole = writeTar([file("a", "12345")])
  expect(() => readTar(whole.subarray(0, 600))).toThrow(/damaged|truncated/)
  expect(() => readTar(Buffer.from("not an archive".repeat(100)))).toThrow(InvalidArchive)
  const link = Buffer.from(whole)
  link[156] = 0x32
  link.write(
    link
      .reduce((sum, byte, i) => (i < 512 ? sum + (i >= 148 && i < 156 ? 32 : byte) : sum), 0)
      .toString(8)
      .padStart(6, "0"),
    148,
  )
  expect(() => readTar(link)).toThrow("a is not a regular file")
  expect(() => writeTar([file("x".repeat(101))])).toThrow(/too long/)
})

test("a bundle is unpacked once, also for concurrent callers, and copied for each run", async () => {
  const dataDir = folder()
  const { hash, bytes } = createBundle([file("tasks/a.ts", "code"), file("run.sh", "echo", true)])
  let reads = 0
  const bundles = new BundleFolders({
    dataDir,
    read: async () => {
      reads += 1
      return bytes
    },
  })
  const runs = ["r1", "r2"].map((run) => join(dataDir, "work", run))
  await Promise.all([...runs, ...runs].map((run) => bundles.copyTo(run, hash)))
  expect(reads).toBe(1)
  for (const run of runs) {
    expect(readFileSync(join(run, "tasks/a.ts"), "utf8")).toBe("code")
    expect(statSync(join(run, "run.sh")).mode & 0o111).not.toBe(0)
  }
  // Changes of a run to its copy are kept.
  writeFileSync(join(runs[0]!, "tasks/a.ts"), "changed")
  const later = new BundleFolders({ dataDir, read: () => Promise.reject(new Error("not read again")) })
  await later.copyTo(runs[0]!, hash)
  expect(readFileSync(join(runs[0]!, "tasks/a.ts"), "utf8")).toBe("changed")
  expect(readFileSync(join(await later.folder(hash), "tasks/a.ts"), "utf8")).toBe("code")
  expect(readdirSync(join(dataDir, "bundles"))).toEqual([hash])
})

test("a bundle whose folder was removed, as no version named it, is unpacked again", async () => {
  const dataDir = folder()
  const { hash, bytes } = createBundle([file("a.ts", "code")])
  const bundles = new BundleFolders({ dataDir, read: async () => bytes })
  rmSync(await bundles.folder(hash), { recursive: true })
  const [unpacked] = await Promise.all([bundles.folder(hash), bundles.folder(hash)])
  expect(readFileSync(join(unpacked, "a.ts"), "utf8")).toBe("code")
})

test("a missing or damaged bundle is reported, leaves no folder, and is read again later", async () => {
  const dataDir = folder()
  const { hash, bytes } = createBundle([file("a")])
  const reads: (Buffer | null)[] = [null, Buffer.from("other"), bytes]
  const bundles = new BundleFolders({ dataDir, read: async () => reads.shift()! })
  await expect(bundles.folder(hash)).rejects.toThrow(/missing in the object store/)
  await expect(bundles.folder(hash)).rejects.toThrow(/damaged/)
  expect(readdirSync(join(dataDir, "bundles"))).toEqual([])
  expect(readdirSync(await bundles.folder(hash))).toEqual(["a"])
})
