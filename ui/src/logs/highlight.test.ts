import { expect, test } from "vitest"
import { highlight } from "./highlight.ts"

const plain = (text: string) => [{ text, style: {} }]
const shown = (marked: ReturnType<typeof highlight>) => marked.map(({ text, hit }) => (hit ? `[${text}]` : text)).join("|")

test("every occurrence is highlighted, ignoring case", () => {
  expect(shown(highlight(plain("Error: no error"), "error"))).toBe("[Error]|: no |[error]")
  expect(shown(highlight(plain("nothing"), "error"))).toBe("nothing")
  expect(shown(highlight(plain("nothing"), ""))).toBe("nothing")
})

test("a highlight crosses coloured spans, which keep their colours", () => {
  const marked = highlight(
    [
      { text: "a er", style: { fg: 1 } },
      { text: "ror b", style: {} },
    ],
    "error",
  )
  expect(shown(marked)).toBe("a |[er]|[ror]| b")
  expect(marked.map(({ style }) => style.fg)).toEqual([1, 1, undefined, undefined])
})
