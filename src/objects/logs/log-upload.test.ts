import { closeSync, existsSync, openSync } from "node:fs"
import { appendFile, mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest"
import { objectStoreSuite } from "../conformance/suite.ts"
import { streamBytes } from "./log-index.ts"
import { joinParts, LogUpload } from "./log-upload.ts"
import { LogWatcher, notifyReaders } from "./log-watcher.ts"
import { openLog } from "./log-sink.ts"
import { LogWriter } from "./log-writer.ts"
import { type LogLine, TaskLog } from "./task-log.ts"
import { MemoryObjectStore } from "../testing/memory.ts"

objectStoreSuite("in memory, for tests", async () => ({ store: new MemoryObjectStore(), cleanup: async () => undefined }))

const PREFIX = "runs/r/t/a/"
const MIB = 1 << 20
const POLL_MS = 20

let folder: string
let path: string
let store: MemoryObjectStore
let writer: LogWriter
let upload: LogUpload
let log: TaskLog

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "ork-parts-"))
  path = join(folder, "log")
  store = new MemoryObjectStore()
  writer = new LogWriter(path)
  upload = new LogUpload(store, PREFIX, path, POLL_MS)
  log = new TaskLog(store, PREFIX)
})
afterEach(async () => {
  store.broken = null
  await upload.close()
  await rm(folder, { recursive: true, force: true })
})

const write = (stream: 1 | 2, text: string | Buffer): void => writer.add(stream, Buffer.from(text as string))
const uploaded = (size: number): Promise<boolean> =>
  vi.waitUntil(async () => (await new TaskLog(store, PREFIX).size()) >= size, { timeout: 5000 })
const lines = async (): Promise<string[]> => {
  const all: LogLine[] = []
  for await (const line of new TaskLog(store, PREFIX).lines()) all.push(line)
  return all.map(({ stream, line }) => `${stream} ${line}`)
}
const end = async (): Promise<void> => {
  writer.close()
  await upload.close()
}
const keys = (): string[] => [...store.objects.keys()].toSorted()

test("a log can be read while the task runs, from several parts", async () => {
  write(1, "one\n")
  await uploaded(4)
  write(2, "two\n")
  write(1, "three\n")
  await uploaded(14)
  expect(keys()).toEqual([`${PREFIX}log/00000001.4.1`, `${PREFIX}log/00000002.10.2`])
  expect(await lines()).toEqual(["stdout one", "stderr two", "stdout three"])
  const read = async (offset: number, max?: number) => Buffer.from((await log.read(offset, max)).bytes).toString()
  expect(await read(0)).toBe("one\n")
  expect(await read(6, 4)).toBe("o\nth")
  expect(await read(-6)).toBe("three\n")
  expect(await log.size()).toBe(14)
  expect((await log.tailLines(1))[0]!.line).toBe("three")
})

test("a finished log consists of two objects, and no local files are left", async () => {
  write(1, "one\n")
  await uploaded(4)
  write(2, "two\n")
  await end()
  expect(keys()).toEqual([`${PREFIX}log`, `${PREFIX}log.idx`])
  expect(await lines()).toEqual(["stdout one", "stderr two"])
  expect(existsSync(path) || existsSync(`${path}.idx`)).toBe(false)
})

test("the log of a short task is never in parts, and a task without output has no objects", async () => {
  write(1, "quick\n")
  const parts: string[] = []
  const { put } = store
  store.put = (key, data) => {
    parts.push(key)
    return put.call(store, key, data)
  }
  await end()
  expect(parts.filter((key) => key.includes("/log/"))).toEqual([])
  expect(await lines()).toEqual(["stdout quick"])
  const silent = new LogUpload(store, "runs/r/t/b/", join(folder, "none"))
  await silent.close()
  expect(await store.list("runs/r/t/b/")).toEqual([])
  expect(await new TaskLog(store, "runs/r/t/b/").size()).toBe(0)
})

test("a follower reads each part when it is uploaded, and every byte once, also across the join", async () => {
  const ended = new AbortController()
  const seen = log.bytes({ ended: ended.signal })
  const next = async () => Buffer.from((await seen.next()).value as Uint8Array).toString()
  const first = next()
  write(1, "a\n")
  expect(await first).toBe("a\n")
  const second = next()
  write(1, "b\n")
  expect(await second).toBe("b\n")
  write(1, "c\n")
  await end()
  ended.abort()
  expect(await next()).toBe("c\n")
  expect((await seen.next()).done).toBe(true)
})

test("an upload notifies the readers of that log, and no others", async () => {
  const ended = new AbortController()
  const watchers = [PREFIX, "runs/r/t/other/"].map((prefix) => new LogWatcher(store, prefix, ended.signal))
  const notified: number[] = []
  watchers.forEach((watcher, i) => void watcher.next().then(() => notified.push(i)))
  notifyReaders(store, PREFIX)
  await Promise.resolve()
  expect(notified).toEqual([0])
  for (const watcher of watchers) watcher.close()
})

test("reading a removed log returns nothing", async () => {
  write(1, "one\n")
  await uploaded(4)
  const reader = new TaskLog(store, PREFIX)
  expect(await reader.size()).toBe(4)
  store.objects.clear()
  expect((await reader.read(0)).bytes.byteLength).toBe(0)
})

test("a reader of parts continues in the joined log", async () => {
  for (let i = 0; i < 3; i++) {
    write(1, `${i} ${"x".repeat(100)}\n`)
    await uploaded((i + 1) * 103)
  }
  const reader = log.lines()
  expect(((await reader.next()).value as LogLine).line[0]).toBe("0")
  await end()
  expect(((await reader.next()).value as LogLine).line[0]).toBe("1")
  expect(((await reader.next()).value as LogLine).line[0]).toBe("2")
  expect((await reader.next()).done).toBe(true)
})

test("parts that a crash left can be read", async () => {
  write(1, "begin ")
  await uploaded(6)
  write(1, "end\n")
  write(2, "oops\n")
  await uploaded(15)
  const found: string[] = []
  for await (const bytes of streamBytes(store, PREFIX, { stream: "stdout", offset: 0, length: 9 })) {
    found.push(Buffer.from(bytes).toString())
  }
  expect(found.join("")).toBe("begin end")
  expect(await lines()).toEqual(["stdout begin end", "stderr oops"])
})

test("bytes without an index record are stored too", async () => {
  write(1, "known\n")
  await uploaded(6)
  writer.close()
  await appendFile(path, "its record was never written\n")
  await upload.close()
  expect(await lines()).toEqual(["stdout known", "stdout its record was never written"])
})

describe("a large log", () => {
  const writeLarge = (mib: number): Buffer => {
    const line = `${"0123456789abcdef".repeat(64)}\n`
    const block = Buffer.from(line.repeat(Math.floor(65_536 / line.length)))
    const blocks = Array.from({ length: Math.ceil((mib * MIB) / block.length) }, () => block)
    for (const one of blocks) write(1, one)
    return Buffer.concat(blocks)
  }

  test("is uploaded in parts of bounded size and joined in the store", async () => {
    const all = writeLarge(30)
    await uploaded(all.length)
    const sizes = [...store.objects.values()].map(({ length }) => length)
    expect(sizes.length).toBeGreaterThan(3)
    expect(Math.max(...sizes)).toBeLessThan(9 * MIB)
    await end()
    expect(store.joins).toBe(1)
    expect(Buffer.compare(store.objects.get(`${PREFIX}log`)!, all)).toBe(0)
    expect(keys()).toEqual([`${PREFIX}log`, `${PREFIX}log.idx`])
  })

  test("is read completely by a reader that follows it", async () => {
    const ended = new AbortController()
    const reading = (async () => {
      const pieces: Uint8Array[] = []
      for await (const piece of log.bytes({ ended: ended.signal })) pieces.push(Buffer.from(piece))
      return Buffer.concat(pieces)
    })()
    const all = writeLarge(20)
    await uploaded(all.length / 2)
    await end()
    ended.abort()
    expect(Buffer.compare(await reading, all)).toBe(0)
  })
})

test("parts of a worker are joined without a local file; a single part stays", async () => {
  write(1, "one\n")
  await uploaded(4)
  await joinParts(store, PREFIX)
  expect(keys()).toEqual([`${PREFIX}log/00000001.4.1`])
  write(2, "two\n")
  await uploaded(8)
  write(1, "three\n")
  await uploaded(14)
  await joinParts(store, PREFIX)
  expect(keys()).toEqual([`${PREFIX}log`, `${PREFIX}log.idx`])
  expect(await lines()).toEqual(["stdout one", "stderr two", "stdout three"])
  await joinParts(store, PREFIX)
  expect(keys()).toEqual([`${PREFIX}log`, `${PREFIX}log.idx`])
})

test("a temporary failure of the store loses nothing", async () => {
  store.broken = new Error("no route")
  write(1, "one\n")
  await vi.waitUntil(() => existsSync(path))
  await expect(upload.close()).rejects.toThrow("no route")
  store.broken = null
  upload = new LogUpload(store, PREFIX, path, POLL_MS)
  write(1, "two\n")
  await uploaded(8)
  expect(await lines()).toEqual(["stdout one", "stdout two"])
})

test("a log sink for remote stores masks secrets and returns the last line", async () => {
  const sink = openLog(store, "runs/r/t/s/", { secrets: ["hunter2"] })
  await sink.write("stdout", "the word is hun")
  await sink.write("stdout", 'ter2\n{"a":1}\n')
  await sink.write("stderr", Buffer.from("done\n"))
  const { last, size } = await sink.close()
  const stored = store.objects.get("runs/r/t/s/log")!.toString()
  expect(stored).toBe('the word is ***\n{"a":1}\ndone\n')
  expect(stored.slice(last.offset, last.offset + last.length)).toBe('{"a":1}')
  expect(size).toBe(stored.length)
})

describe("a log that could not be stored", () => {
  beforeEach(() => void vi.stubEnv("TMPDIR", folder))
  afterEach(() => void vi.unstubAllEnvs())

  test("is closed once: files that got its descriptors are left alone", async () => {
    const sink = openLog(store, PREFIX, { secrets: [] })
    await sink.write("stdout", "one\n")
    store.broken = new Error("down")
    await expect(sink.close()).rejects.toThrow("down")
    const paths = [1, 2, 3, 4].map((number) => join(folder, `other${number}`))
    const files = paths.map((other) => openSync(other, "w"))
    await sink.write("stderr", "two\n")
    await sink.close()
    for (const file of files) closeSync(file)
    expect(await Promise.all(paths.map((other) => readFile(other, "utf8")))).toEqual(["", "", "", ""])
  })

  test("leaves no local files when its writer failed", async () => {
    const sink = openLog(store, PREFIX, { secrets: [] })
    const [local] = (await readdir(folder)).filter((name) => name.startsWith("ork-log-"))
    await sink.write("stdout", "one\n")
    await rm(join(folder, local!, "log"))
    await expect(sink.close()).rejects.toThrow("the log is incomplete")
    expect(existsSync(join(folder, local!))).toBe(false)
  })
})
