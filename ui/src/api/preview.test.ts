import { expect, test } from "vitest"
import { isImage, previewOf } from "./preview.ts"

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

test("a preview is JSON, text, or nothing for other bytes", () => {
  expect(previewOf("a.json", bytes('{"a":1}'), true)).toEqual({ kind: "json", value: { a: 1 } })
  expect(previewOf("a.json", bytes("{"), true)).toEqual({ kind: "text", text: "{" })
  expect(previewOf("a.json", bytes('{"a":1'), false)).toEqual({ kind: "text", text: '{"a":1' })
  expect(previewOf("page.html", bytes("<script>alert(1)</script>"), true)).toEqual({
    kind: "text",
    text: "<script>alert(1)</script>",
  })
  expect(previewOf("a.bin", new Uint8Array([0xff, 0xfe]), true)).toEqual({ kind: "none" })
  expect(previewOf("a.bin", bytes("a\0b"), true)).toEqual({ kind: "none" })
})

test("a character that is cut at the end of a preview is left out", () => {
  expect(previewOf("a.txt", bytes("aä").subarray(0, 2), false)).toEqual({ kind: "text", text: "a" })
})

test("images are known by their names", () => {
  expect(["a.PNG", "b.svg", "c.jpeg"].every(isImage)).toBe(true)
  expect(["a.png.txt", "png", "a.html"].some(isImage)).toBe(false)
})
