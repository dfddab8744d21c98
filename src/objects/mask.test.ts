import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { createMask, maskJson, maskText } from "./mask.ts"

const through = (parts: readonly string[], secrets: readonly string[]): string => {
  const mask = createMask(secrets)!
  return Buffer.concat([...parts.map((part) => mask.add(Buffer.from(part))), mask.end()]).toString("utf8")
}

describe("a mask", () => {
  it("takes every secret out, the longer one first", () => {
    expect(maskText("key=hunter2-long, hunter2!", ["hunter2", "hunter2-long"])).toBe("key=***, ***!")
  })

  it("finds one that is split between two writes, and keeps what only looked like one", () => {
    expect(through(["pass: hun", "ter2 and hun", "ger"], ["hunter2"])).toBe("pass: *** and hunger")
  })

  it("takes the lines of a secret of several lines out one by one", () => {
    expect(maskText("first\n> second", ["first\nsecond"])).toBe("***\n> ***")
  })

  it("waits for the longer one when a shorter one begins it", () => {
    expect(through(["abc", "def!"], ["abc", "abcdef"])).toBe("***!")
    expect(through(["xab", "cy"], ["abc", "xabcy"])).toBe("***")
    expect(through(["abc"], ["abc", "abcdef"])).toBe("***")
  })

  it("finds one in JSON, whatever its writer escapes", () => {
    const secret = 'pä"ss\\n'
    for (const text of [JSON.stringify({ a: secret }), '{"a":"p\\u00e4\\"ss\\\\n"}']) {
      expect(JSON.parse(text)).toEqual({ a: secret })
      expect(maskText(text, [secret])).toBe('{"a":"***"}')
    }
  })

  it("goes through a value: texts, names of fields, numbers that are one", () => {
    const value = { "12345x": ["my 12345", 12345, 123456, null, true], b: { c: "no" } }
    expect(maskJson(value, ["12345"])).toEqual({ "***x": ["my ***", "***", 123456, null, true], b: { c: "no" } })
    expect(maskJson(value, [])).toBe(value)
  })

  it("leaves the text alone when there is no secret, or one too short to hide", () => {
    expect(maskText("a b c", ["a", ""])).toBe("a b c")
    expect(createMask(["", "ab"])).toBeNull()
  })

  it("lets nothing through and loses nothing else, however the text is cut", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom("sec", "ret", "secret", "x", "se", "\n", "ecr")), (parts) => {
        const whole = parts.join("")
        expect(through(parts, ["secret"])).toBe(whole.replaceAll("secret", "***"))
      }),
    )
  })
})
