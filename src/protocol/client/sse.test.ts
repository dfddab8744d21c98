import { expect, test } from "vitest"
import { SseParser } from "./sse.ts"

const WIRE = 'retry: 2000\n: ork\n\nid: 1.0\n\nid: 2.0\nevent: run\ndata: {"a":\ndata: 1}\n\nevent: log\ndata:x\n\n: ping\n\n'
const MESSAGES = [
  { id: "1.0", event: "message", data: "" },
  { id: "2.0", event: "run", data: '{"a":\n1}' },
  { id: "2.0", event: "log", data: "x" },
]

test("messages do not depend on how the text is split", () => {
  for (let size = 1; size <= WIRE.length; size++) {
    const parser = new SseParser()
    const found = []
    for (let at = 0; at < WIRE.length; at += size) found.push(...parser.push(WIRE.slice(at, at + size)))
    expect(found).toEqual(MESSAGES)
  }
})

test("lines may end with LF, CR or CRLF", () => {
  for (const end of ["\r\n", "\r"]) {
    // A last line that goes on: a return at the very end may be half of a line's end.
    expect(new SseParser().push(`${WIRE.replaceAll("\n", end)}:`)).toEqual(MESSAGES)
  }
})

test("CR and LF in two pieces end one line", () => {
  const parser = new SseParser()
  const wire = WIRE.replaceAll("\n", "\r\n")
  expect([...wire].flatMap((char) => parser.push(char))).toEqual(MESSAGES)
})

test("an incomplete message is not returned, and an id with a NUL is ignored", () => {
  const parser = new SseParser()
  expect(parser.push("id: 3.0\ndata: x\n")).toEqual([])
  expect(parser.push("\n")).toEqual([{ id: "3.0", event: "message", data: "x" }])
  expect(parser.push("id: 4\u00000\ndata: y\n\n")).toEqual([{ id: "3.0", event: "message", data: "y" }])
})

test("a line that is too long fails", () => {
  const parser = new SseParser()
  const piece = "x".repeat(2 ** 22)
  expect(() => {
    for (let i = 0; i < 8; i++) parser.push(piece)
  }).toThrow("too long")
})
