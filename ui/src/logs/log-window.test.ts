import { expect, test, vi } from "vitest"
import type { LogPort } from "./log-port.ts"
import { lineAt, LogWindow, PIECE_BYTES } from "./log-window.ts"
import { firstError, landmarkBefore, MAX_FOUND, nextFound, type Scan, searchLog } from "./scan.ts"

/** A log that can grow; bytes from `stderrFrom` on are stderr. */
const logOf = (start: string, stderrFrom = Infinity) => {
  let bytes = new TextEncoder().encode(start)
  const read = vi.fn<LogPort["read"]>(async (offset, length) => {
    const from = offset < 0 ? Math.max(0, bytes.length + offset) : Math.min(offset, bytes.length)
    return { bytes: bytes.subarray(from, from + length), offset: from, size: bytes.length }
  })
  const port: LogPort = {
    read,
    times: async (offset) => [
      { offset, at: `t${offset}`, stream: offset >= stderrFrom ? ("stderr" as const) : ("stdout" as const) },
      ...(stderrFrom > offset && stderrFrom !== Infinity ? [{ offset: stderrFrom, at: "e", stream: "stderr" as const }] : []),
    ],
  }
  const grow = (text: string): void => {
    bytes = new TextEncoder().encode(new TextDecoder().decode(bytes) + text)
  }
  return { port, read, grow }
}

const numbered = (count: number): string =>
  Array.from({ length: count }, (_, i) => `line ${i + 1} ${"x".repeat(60)}\n`).join("")
const texts = (window: LogWindow): string[] => window.snapshot().lines.map((line) => line.text.replace(/ x+$/, ""))
const nothing = new AbortController().signal

test("it opens at the end with one small read and shows no line numbers", async () => {
  const { port, read } = logOf(numbered(50_000))
  const window = new LogWindow(port)
  await window.openEnd()
  expect(texts(window).at(-1)).toBe("line 50000")
  expect(window.snapshot()).toMatchObject({ firstNumber: null, opening: false, target: null })
  expect(read).toHaveBeenCalledTimes(1)
  expect(read.mock.calls[0]!.slice(0, 2)).toEqual([-PIECE_BYTES, PIECE_BYTES])
})

test("going back to the start shows every line once in bounded memory and then knows the line numbers", async () => {
  const { port } = logOf(numbered(100_000))
  const window = new LogWindow(port)
  await window.openEnd()
  let most = 0
  while (window.snapshot().start > 0) {
    const before = window.snapshot().start
    await window.more("before")
    const { lines, start, end } = window.snapshot()
    expect(start).toBeLessThan(before)
    most = Math.max(most, end - start)
    expect(new Set(lines.map((line) => line.offset)).size).toBe(lines.length)
  }
  expect(texts(window).slice(0, 2)).toEqual(["line 1", "line 2"])
  expect(window.snapshot().firstNumber).toBe(1)
  expect(most).toBeLessThanOrEqual(12 * PIECE_BYTES)
  while (window.snapshot().end < window.snapshot().size) await window.more("after")
  expect(texts(window).at(-1)).toBe("line 100000")
  const { firstNumber } = window.snapshot()
  expect(texts(window)[0]).toBe(`line ${firstNumber}`)
})

test("a growing log continues an incomplete line", async () => {
  const { port, grow } = logOf("one\ntw")
  const window = new LogWindow(port)
  await window.openEnd()
  expect(texts(window)).toEqual(["one", "tw"])
  grow("o\nthree\n")
  await window.poll()
  expect(texts(window)).toEqual(["one", "two", "three"])
  await window.poll()
  grow("four\n")
  await window.poll()
  expect(texts(window)).toEqual(["one", "two", "three", "four"])
  expect(window.snapshot().firstNumber).toBe(1)
})

test("following a log that grows faster than it is read shows its end", async () => {
  const { port, grow } = logOf("one\n")
  const window = new LogWindow(port)
  await window.openEnd()
  window.following = true
  grow(numbered(30_000))
  await window.poll()
  expect(window.snapshot().end).toBeLessThan(window.snapshot().size)
  await window.poll()
  expect(texts(window).at(-1)).toBe("line 30000")
  window.following = false
  grow(numbered(30_000))
  await window.poll()
  const { end } = window.snapshot()
  await window.poll()
  expect(window.snapshot().end).toBe(end)
})

test("an empty log opens, and its first line appears later", async () => {
  const { port, grow } = logOf("")
  const window = new LogWindow(port)
  await window.openEnd()
  expect(window.snapshot()).toMatchObject({ lines: [], opening: false, size: 0 })
  grow("hello\n")
  await window.poll()
  expect(texts(window)).toEqual(["hello"])
})

test("growth outside the visible part only changes the size", async () => {
  const { port, grow } = logOf(numbered(20_000))
  const window = new LogWindow(port)
  await window.openAt(0)
  const { end, size } = window.snapshot()
  grow("more\n")
  await window.poll()
  expect(window.snapshot()).toMatchObject({ end, size: size + 5 })
})

test("a failed read is reported, and the next poll recovers", async () => {
  const { port, read } = logOf("a\n")
  read.mockRejectedValueOnce(new Error("away"))
  const window = new LogWindow(port)
  await window.openEnd()
  expect(window.snapshot().error).toBeInstanceOf(Error)
  await window.poll()
  expect(window.snapshot()).toMatchObject({ error: null, opening: false })
  expect(texts(window)).toEqual(["a"])
})

test("a search finds lines with their numbers, ignoring colours, and jumping to them keeps the numbers", async () => {
  const text = `${numbered(20_000)}the \u001b[31mNee\u001b[0mdle\n${numbered(10)}`
  const { port } = logOf(text)
  const told: Scan[] = []
  await searchLog(port, "needle", nothing, (scan) => told.push(scan))
  expect(told.at(-1)).toMatchObject({ done: true, more: false })
  const [only] = told.at(-1)!.found
  expect(only!.number).toBe(20_001)
  const window = new LogWindow(port)
  await window.openAt(only!.offset, landmarkBefore(port, only!.offset))
  const { lines, firstNumber, target } = window.snapshot()
  expect(target).toBe(only!.offset)
  expect(lines.findIndex((line) => line.offset === only!.offset) + firstNumber!).toBe(20_001)
  await window.more("before")
  expect(texts(window)[0]).toBe(`line ${window.snapshot().firstNumber}`)
  expect(window.snapshot().firstNumber).toBeLessThan(firstNumber!)
})

test("a search with very many matches stops at the limit", async () => {
  const { port } = logOf("x\n".repeat(MAX_FOUND + 5))
  let last: Scan | null = null
  await searchLog(port, "X", nothing, (scan) => (last = scan))
  expect(last).toMatchObject({ more: true, done: true })
  expect(last!.found).toHaveLength(MAX_FOUND)
})

test("the first error is a line that mentions one, else the first on stderr, else none", async () => {
  expect(await firstError(logOf("fine\nValueError: no\nerror\n").port, nothing)).toEqual({ offset: 5, number: 2 })
  expect(await firstError(logOf("fine\nodd\nok\n", 5).port, nothing)).toEqual({ offset: 5, number: 2 })
  expect(await firstError(logOf("warn\nfine\nFATAL\n", 0).port, nothing)).toEqual({ offset: 10, number: 3 })
  expect(await firstError(logOf("fine\n").port, nothing)).toBeNull()
  expect(await firstError(logOf("").port, nothing)).toBeNull()
})

test("next and previous wrap around", () => {
  const found = [5, 10, 20].map((offset) => ({ offset, number: offset }))
  expect([nextFound(found, null, 1), nextFound(found, 5, 1), nextFound(found, 20, 1)]).toEqual([0, 1, 0])
  expect([nextFound(found, null, -1), nextFound(found, 5, -1), nextFound(found, 12, -1)]).toEqual([2, 2, 1])
  expect(nextFound([], 3, 1)).toBe(-1)
})

test("a line is found by its offset if it is loaded", async () => {
  const { port } = logOf(numbered(1000))
  const window = new LogWindow(port)
  await window.openEnd()
  const { lines } = window.snapshot()
  for (const index of [0, 1, lines.length - 1]) expect(lineAt(lines, lines[index]!.offset)).toBe(index)
  expect(lineAt(lines, lines[1]!.offset + 1)).toBe(-1)
  expect(lineAt(lines, lines.at(-1)!.offset + 1000)).toBe(-1)
  expect(lineAt([], 0)).toBe(-1)
})
