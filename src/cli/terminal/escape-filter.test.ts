import fc from "fast-check"
import { expect, test } from "vitest"
import { EscapeFilter } from "./escape-filter.ts"

const filter = (text: string): string => new EscapeFilter().add(Buffer.from(text))

test.each([
  ["colours stay", "\u001b[1;31mred\u001b[0m", "\u001b[1;31mred\u001b[0m"],
  ["line ends and tabs stay", "a\tb\r\nc", "a\tb\r\nc"],
  ["a clipboard write (OSC 52)", "a\u001b]52;c;ZXZpbA==\u0007b", "ab"],
  ["a title, ended by ST", "a\u001b]0;title\u001b\\b", "ab"],
  ["a link (OSC 8)", "\u001b]8;;http://evil\u001b\\text\u001b]8;;\u001b\\", "text"],
  ["cursor movement", "a\u001b[2J\u001b[1;1Hb\u001b[?1049h", "ab"],
  ["a device request (DCS)", 'a\u001bP$q"p\u001b\\b', "ab"],
  ["a reset", "a\u001bcb", "ab"],
  ["a character set", "a\u001b(0b", "ab"],
  ["C1 characters", "a\u009b2Jb\u009d52;c;x\u009cc", "abc"],
  ["bells and backspaces", "a\u0007\b\u0000b", "ab"],
  ["an unfinished sequence at the end of a line", "a\u001b[12\nb", "a\nb"],
])("%s", (_name, text, printed) => {
  expect(filter(text)).toBe(printed)
})

test("a text that is cut anywhere is filtered like the whole", () => {
  const piece = fc.constantFrom("a", "é", "\u001b", "[", "]", "52;c;x", "\u0007", "\\", "31m", "\n", "\u009b", "(", "P")
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 20 }), fc.nat(60), (pieces, at) => {
      const bytes = Buffer.from(pieces.join(""))
      const cut = new EscapeFilter()
      const printed = cut.add(bytes.subarray(0, at)) + cut.add(bytes.subarray(at))
      expect(printed).toBe(filter(pieces.join("")))
      expect(printed.replaceAll(/\u001b\[[\d;:]*m/g, "")).not.toMatch(/[\u0000-\u0008\u000e-\u001f\u007f-\u009f]/)
    }),
  )
})
