import { expect, test } from "vitest"
import { duration, padEnd, printable, table, textWidth, truncate } from "./text.ts"
import { shortBytes } from "../../core/values/quantities.ts"

test.each([
  [0, "0.0s"],
  [-5, "0.0s"],
  [412, "0.4s"],
  [9949, "9.9s"],
  [9951, "10s"],
  [59_400, "59s"],
  [59_600, "1m00s"],
  [80_000, "1m20s"],
  [3_599_600, "1h00m"],
  [3_900_000, "1h05m"],
  [2 * 86_400_000 + 3 * 3_600_000, "2d03h"],
])("%d ms is formatted as %s", (ms, text) => {
  expect(duration(ms)).toBe(text)
})

test.each([
  [0, "0 B"],
  [1023, "1023 B"],
  [1536, "1.5 KiB"],
  [200 * 1024 * 1024, "200 MiB"],
])("%d bytes are formatted as %s", (count, text) => {
  expect(shortBytes(count)).toBe(text)
})

test("wide characters occupy two columns and combining marks none", () => {
  expect(textWidth("日本")).toBe(4)
  expect(textWidth("e\u0301")).toBe(1)
  expect(padEnd("日", 4)).toBe("日  ")
})

test("a text that is too wide is truncated with an ellipsis inside the width", () => {
  expect(truncate("abcdef", 6)).toBe("abcdef")
  expect(truncate("abcdef", 4)).toBe("abc…")
  expect(truncate("日本語", 4)).toBe("日…")
  expect(truncate("abc", 0)).toBe("")
})

test("escape sequences and control characters are removed from a line", () => {
  expect(printable("\u001b[31mred\u001b[0m\ttab\u001b]0;title\u0007\u001b[2Jend\r")).toBe("red tabend")
})

test("a table aligns its columns and leaves no trailing blanks", () => {
  expect(
    table([
      ["a", "bb", ""],
      ["ccc", "d", "e"],
    ]),
  ).toEqual(["a    bb", "ccc  d   e"])
})
