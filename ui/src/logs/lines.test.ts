import fc from "fast-check"
import { expect, test } from "vitest"
import { linesBefore, linesFrom, type Piece, writtenAt } from "./lines.ts"

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const shown = ({ start, end, lines }: Piece) => ({ start, end, lines: lines.map((line) => [line.offset, line.text]) })

test("lines have the byte offset of their start, not a character offset", () => {
  expect(shown(linesFrom(bytes("ä\nb\n\n€€\n"), 100, false))).toEqual({
    start: 100,
    end: 113,
    lines: [
      [100, "ä"],
      [103, "b"],
      [105, ""],
      [106, "€€"],
    ],
  })
})

test("an incomplete line waits for the next chunk; at the end of the log it is shown", () => {
  expect(shown(linesFrom(bytes("a\nbc"), 0, false))).toEqual({ start: 0, end: 2, lines: [[0, "a"]] })
  expect(shown(linesFrom(bytes("a\nbc"), 0, true))).toMatchObject({ end: 4, lines: [[0, "a"], [2, "bc"]] }) // prettier-ignore
})

test("a line longer than a chunk is split, forwards and backwards", () => {
  expect(shown(linesFrom(bytes("xxxx"), 8, false))).toEqual({ start: 8, end: 12, lines: [[8, "xxxx"]] })
  expect(shown(linesBefore(bytes("xxx\n"), 8))).toEqual({ start: 8, end: 12, lines: [[8, "xxx"]] })
})

test("reading backwards omits a line that began before the chunk, except at the start of the log", () => {
  expect(shown(linesBefore(bytes("rest\na\nb\n"), 10))).toEqual({ start: 15, end: 19, lines: [[15, "a"], [17, "b"]] }) // prettier-ignore
  expect(shown(linesBefore(bytes("rest\na\n"), 0))).toMatchObject({ start: 0, lines: [[0, "rest"], [5, "a"]] }) // prettier-ignore
})

test("carriage returns at the end of a line are removed, and colours continue", () => {
  const { lines } = linesFrom(bytes("\u001b[31mred\r\nstill\u001b[0m\nplain\n"), 0, false)
  expect(lines.map((line) => line.style)).toEqual([{}, { fg: 1 }, {}])
  expect(lines[0]!.text).toBe("\u001b[31mred")
})

test("reading forwards and backwards yields the same lines for any log", () => {
  const line = fc.string({ unit: fc.constantFrom("a", "é", "€", " "), maxLength: 12 })
  fc.assert(
    fc.property(fc.array(line, { minLength: 1 }), fc.integer({ min: 60, max: 120 }), (texts, step) => {
      const all = bytes(texts.map((each) => `${each}\n`).join(""))
      const ahead: (readonly [number, string])[] = []
      for (let at = 0; at < all.length;) {
        const piece = linesFrom(all.subarray(at, at + step), at, at + step >= all.length)
        ahead.push(...piece.lines.map((each) => [each.offset, each.text] as const))
        at = piece.end
      }
      const back: (readonly [number, string])[] = []
      for (let end = all.length; end > 0;) {
        const from = Math.max(0, end - step)
        const piece = linesBefore(all.subarray(from, end), from)
        back.unshift(...piece.lines.map((each) => [each.offset, each.text] as const))
        end = piece.start
      }
      expect(ahead.map(([, text]) => text)).toEqual(texts)
      expect(back).toEqual(ahead)
    }),
  )
})

test("a byte has the last time that is not after it", () => {
  const times = [
    { offset: 0, at: "a", stream: "stdout" as const },
    { offset: 10, at: "b", stream: "stderr" as const },
  ]
  expect([writtenAt(times, 0)?.at, writtenAt(times, 9)?.at, writtenAt(times, 10)?.at, writtenAt(times, 99)?.at]).toEqual([
    "a",
    "a",
    "b",
    "b",
  ])
  expect(writtenAt([], 5)).toBeNull()
})
