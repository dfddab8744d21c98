import fc from "fast-check"
import { expect, test } from "vitest"
import { paletteColour, parseAnsi, PLAIN, stripAnsi } from "./ansi.ts"

const E = "\u001b"
const spans = (text: string) => parseAnsi(text).spans

test("text without escapes is one span, and an empty line none", () => {
  expect(spans("hello")).toEqual([{ text: "hello", style: {} }])
  expect(spans("")).toEqual([])
})

test("the sixteen colours, bright ones and backgrounds", () => {
  expect(spans(`${E}[31mred${E}[0m plain ${E}[92;44mon blue`)).toEqual([
    { text: "red", style: { fg: 1 } },
    { text: " plain ", style: {} },
    { text: "on blue", style: { fg: 10, bg: 4 } },
  ])
})

test("256 colours and true colour, also with colons; a broken one changes nothing", () => {
  expect(spans(`${E}[38;5;208ma${E}[48;2;255;0;16mb${E}[39mc${E}[38:5:300md`)).toEqual([
    { text: "a", style: { fg: 208 } },
    { text: "b", style: { fg: 208, bg: "#ff0010" } },
    { text: "c", style: { bg: "#ff0010" } },
    { text: "d", style: { bg: "#ff0010" } },
  ])
  expect([paletteColour(16), paletteColour(208), paletteColour(231), paletteColour(232), paletteColour(255)]).toEqual([
    "#000000",
    "#ff8700",
    "#ffffff",
    "#080808",
    "#eeeeee",
  ])
})

test("text styles start and end, and an empty sequence resets them", () => {
  expect(spans(`${E}[1;3;4mx${E}[22my${E}[mz`)).toEqual([
    { text: "x", style: { bold: true, italic: true, underline: true } },
    { text: "y", style: { italic: true, underline: true } },
    { text: "z", style: {} },
  ])
})

test("a style continues in the next line", () => {
  const { end } = parseAnsi(`${E}[31mTraceback`)
  expect(end).toEqual({ fg: 1 })
  expect(parseAnsi("  at x", end)).toEqual({ spans: [{ text: "  at x", style: { fg: 1 } }], end: { fg: 1 } })
})

test("other sequences are removed: cursor, titles, links, charsets, and a truncated one", () => {
  expect(stripAnsi(`${E}[2K${E}[1Aa${E}]0;title\u0007b${E}]8;;http://x${E}\\c${E}(Bd${E}[?25le${E}[3`)).toBe("abcde")
})

test("control characters are visible, HTML stays text, and the text direction cannot change", () => {
  expect(stripAnsi("a\u0000b\u0007c\rd\te\u007f")).toBe("a␀b␇c␍d\te␡")
  expect(stripAnsi("<b>&amp;</b>")).toBe("<b>&amp;</b>")
  expect(stripAnsi("abc\u202etxt")).toBe("abc<U+202E>txt")
})

test("for any input the spans together are the stripped text without escapes", () => {
  const piece = fc.oneof(fc.string(), fc.constantFrom(E, `${E}[`, `${E}[1;31m`, `${E}]8;;`, "\u0007", `${E}\\`, "m", "\u009b"))
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const text = pieces.join("")
      const { spans: found } = parseAnsi(text, PLAIN)
      const joined = found.map((span) => span.text).join("")
      expect(joined).toBe(stripAnsi(text))
      expect(joined).not.toContain(E)
    }),
  )
})
