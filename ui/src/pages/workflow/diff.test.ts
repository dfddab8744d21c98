import fc from "fast-check"
import { expect, test } from "vitest"
import { countChanges, type DiffLine, diffLines, folded, readable } from "./diff.ts"

const shown = (lines: readonly DiffLine[]): string[] =>
  lines.map(({ kind, text }) => `${{ same: " ", added: "+", removed: "-" }[kind]}${text}`)

test("a changed line is removed and added, the others stay", () => {
  expect(shown(diffLines("a\nb\nc\n", "a\nx\nc\n"))).toEqual([" a", "-b", "+x", " c"])
})

test("lines have their numbers in each text", () => {
  expect(diffLines("a\nb", "new\na\nb").map(({ left, right }) => [left, right])).toEqual([
    [null, 1],
    [1, 2],
    [2, 3],
  ])
})

test("an empty text and a text differ in every line", () => {
  expect(shown(diffLines("", "a\n"))).toEqual(["+a"])
  expect(shown(diffLines("a", ""))).toEqual(["-a"])
  expect(diffLines("", "")).toEqual([])
})

const text = fc
  .array(fc.constantFrom("a", "b", "c", "d"), { maxLength: 12 })
  .map((lines) => lines.map((line) => `${line}\n`).join(""))

test("without added lines the diff is the old text, without removed lines the new one", () => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before, after)
      const without = (kind: string) =>
        lines
          .filter((line) => line.kind !== kind)
          .map((line) => `${line.text}\n`)
          .join("")
      expect([without("added"), without("removed")]).toEqual([before, after])
    }),
  )
})

test("texts that are too large for a table count as replaced, without delay", () => {
  const many = (word: string) => Array.from({ length: 3000 }, (_, i) => `${word}${i}`).join("\n")
  expect(countChanges(diffLines(many("a"), many("b")))).toEqual({ added: 3000, removed: 3000 })
})

test("lines far from a change are folded", () => {
  const before = Array.from({ length: 20 }, (_, i) => `line ${i}`)
  const after = before.with(10, "changed")
  const parts = folded(diffLines(before.join("\n"), after.join("\n")))
  expect(parts.map((part) => (part.kind === "fold" ? part.lines.length : part.kind))).toEqual([
    7,
    "same",
    "same",
    "same",
    "removed",
    "added",
    "same",
    "same",
    "same",
    6,
  ])
})

test("single-line JSON is indented; other text stays unchanged", () => {
  expect(readable('{"name":"a","tasks":{}}')).toBe('{\n  "name": "a",\n  "tasks": {}\n}')
  expect(readable("name: a\n")).toBe("name: a\n")
  expect(readable('{\n"a": 1}')).toBe('{\n"a": 1}')
  expect(readable("{ a")).toBe("{ a")
})
