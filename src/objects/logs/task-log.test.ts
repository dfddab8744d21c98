import { appendFile, mkdir, mkdtemp, rm, truncate } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, expect, test } from "vitest"
import { FileObjectStore } from "../file/file.ts"
import { streamBytes } from "./log-index.ts"
import { TaskLog } from "./task-log.ts"
import type { FollowOptions, LogLine } from "./task-log.ts"

const PREFIX = "runs/r/t/a/"

let root: string
let store: FileObjectStore
let log: TaskLog
let size: number

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "ork-logs-"))
  store = new FileObjectStore(root)
  log = new TaskLog(store, PREFIX)
  size = 0
})
afterEach(() => rm(root, { recursive: true, force: true }))

/** Writes a chunk as executors do: bytes first, then the record. */
const write = async (stream: 1 | 2, data: string | Uint8Array, at = 1000): Promise<void> => {
  const bytes = Buffer.from(data as string)
  const record = Buffer.alloc(24)
  record.writeBigUInt64LE(BigInt(size), 0)
  record.writeBigUInt64LE(BigInt(at), 8)
  record.writeUInt32LE(bytes.length, 16)
  record.writeUInt32LE(stream, 20)
  size += bytes.length
  await mkdir(join(root, PREFIX), { recursive: true })
  await appendFile(store.localPath(`${PREFIX}log`), bytes)
  await appendFile(store.localPath(`${PREFIX}log.idx`), record)
}

const lines = async (options?: FollowOptions): Promise<LogLine[]> => {
  const all: LogLine[] = []
  for await (const line of log.lines(options)) all.push(line)
  return all
}

const formatLines = (all: LogLine[]): string[] =>
  all.map((line) => `${line.at} ${line.stream} ${line.line}${line.more ? "…" : ""}`)

test("lines have the time and the stream of their chunk", async () => {
  await write(1, "one\ntwo\n", 1)
  await write(2, "oops\n", 2)
  await write(1, "three\n", 3)
  expect(formatLines(await lines())).toEqual(["1 stdout one", "1 stdout two", "2 stderr oops", "3 stdout three"])
})

test("a line in several chunks is joined, separately for each stream", async () => {
  await write(1, "begin ", 1)
  await write(2, "err\n", 2)
  await write(1, "middle ", 3)
  await write(1, "end\n", 4)
  expect(formatLines(await lines())).toEqual(["2 stderr err", "1 stdout begin middle end"])
})

test("a task without output has an empty log", async () => {
  expect(await log.size()).toBe(0)
  expect(await lines()).toEqual([])
  expect(await log.tailLines(5)).toEqual([])
  expect((await log.read(-10)).bytes.byteLength).toBe(0)
})

test("bytes without a record, after a crash, are read as stdout at the last known time", async () => {
  await write(2, "known\n", 7)
  await write(1, "its record is torn\n", 8)
  await truncate(store.localPath(`${PREFIX}log.idx`), 24 + 11)
  expect(formatLines(await lines())).toEqual(["7 stderr known", "7 stdout its record is torn"])
  await rm(store.localPath(`${PREFIX}log.idx`))
  expect(formatLines(await lines())).toEqual(["0 stdout known", "0 stdout its record is torn"])
})

test("offsets count from the beginning, or from the end if negative", async () => {
  await write(1, "0123456789")
  const read = async (offset: number, max?: number) => Buffer.from((await log.read(offset, max)).bytes).toString()
  expect(await read(0)).toBe("0123456789")
  expect(await read(4, 3)).toBe("456")
  expect(await read(-3)).toBe("789")
  expect(await read(-300)).toBe("0123456789")
  expect((await log.read(4, 3)).next).toBe(7)
})

test("lines can be read from any offset", async () => {
  for (let i = 0; i < 100; i++) await write(i % 2 === 0 ? 1 : 2, `line ${i}\n`, i)
  const offset = Array.from({ length: 60 }, (_, i) => `line ${i}\n`).join("").length
  expect((await lines({ offset }))[0]).toEqual({ at: 60, stream: "stdout", line: "line 60" })
  expect((await lines({ offset: offset + 2 }))[0]).toEqual({ at: 60, stream: "stdout", line: "ne 60" })
  expect((await lines({ offset: -8 })).map((line) => line.line)).toEqual(["line 99"])
})

test("a very long line is split between characters", async () => {
  const text = "ä€🙂".repeat(30_000)
  const bytes = Buffer.from(`${text}\n`)
  for (let at = 0; at < bytes.length; at += 65_536) await write(1, bytes.subarray(at, at + 65_536))
  const all = await lines()
  expect(all.length).toBeGreaterThan(3)
  expect(all.map((line) => line.line).join("")).toBe(text)
  expect(all.map((line) => line.more ?? false)).toEqual([...all.slice(1).map(() => true), false])
})

test("bytes that are not UTF-8 do not stop the reader", async () => {
  await write(1, Uint8Array.of(0xff, 0xfe, 0x00, 0x0a, 0x61, 0x0a))
  expect((await lines()).map((line) => line.line)).toEqual(["\ufffd\ufffd\0", "a"])
})

test("tailLines returns the last lines of a log of any length", async () => {
  for (let i = 0; i < 50; i++) await write(1, `${i} `.padEnd(4000, "x") + "\n", i)
  const tail = await log.tailLines(30)
  expect(tail.map((line) => line.at)).toEqual(Array.from({ length: 30 }, (_, i) => i + 20))
  expect((await log.tailLines(1))[0]!.line.startsWith("49 ")).toBe(true)
  expect((await log.tailLines(100)).length).toBe(50)
})

test("a followed log yields lines as they are written, also partial ones, and ends with the task", async () => {
  const ended = new AbortController()
  const seen = log.lines({ ended: ended.signal })
  const next = async () => formatLines([(await seen.next()).value as LogLine])[0]
  const first = next()
  await write(1, "first\n", 1)
  expect(await first).toBe("1 stdout first")
  const prompt = next()
  await write(1, "name? ", 2)
  expect(await prompt).toBe("2 stdout name? …")
  const answer = next()
  await write(1, "ork\n", 3)
  expect(await answer).toBe("3 stdout ork")
  const last = next()
  await write(2, "no newline", 4)
  expect(await last).toBe("4 stderr no newline…")
  ended.abort()
  expect((await seen.next()).done).toBe(true)
})

test("lines from before the end of the task are read after it", async () => {
  const ended = new AbortController()
  const all = lines({ ended: ended.signal })
  await write(1, "a\nb\n", 1)
  ended.abort()
  expect(formatLines(await all)).toEqual(["1 stdout a", "1 stdout b"])
})

test("a followed raw log yields every byte once", async () => {
  const ended = new AbortController()
  const all = (async () => {
    let text = ""
    for await (const bytes of log.bytes({ ended: ended.signal, offset: 2 })) text += Buffer.from(bytes).toString()
    return text
  })()
  await write(1, "abc")
  await write(2, "def\n")
  ended.abort()
  expect(await all).toBe("cdef\n")
})

test("a reader can stop following a log", async () => {
  await write(1, "one\n")
  for await (const line of log.lines({ ended: new AbortController().signal })) {
    expect(line.line).toBe("one")
    break
  }
})

test("streamBytes yields the bytes of one stream", async () => {
  await write(1, "skip\n")
  await write(1, '{"a":')
  await write(2, "noise\n")
  await write(1, "1}\nrest")
  let text = ""
  for await (const bytes of streamBytes(store, PREFIX, { stream: "stdout", offset: 5, length: 7 }))
    text += Buffer.from(bytes).toString()
  expect(text).toBe('{"a":1}')
})
