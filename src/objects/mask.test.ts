import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { createMask, maskJson, maskText } from "./mask.ts"

const maskParts = (parts: readonly string[], secrets: readonly string[]): string => {
  const mask = createMask(secrets)!
  return Buffer.concat([...parts.map((part) => mask.add(Buffer.from(part))), mask.end()]).toString("utf8")
}

describe("a mask", () => {
  it("masks every secret, the longer one first", () => {
    expect(maskText("key=hunter2-long, hunter2!", ["hunter2", "hunter2-long"])).toBe("key=***, ***!")
  })

  it("masks a secret that is split between two writes, and keeps a text that only begins like one", () => {
    expect(maskParts(["pass: hun", "ter2 and hun", "ger"], ["hunter2"])).toBe("pass: *** and hunger")
  })

  it("masks each line of a multi-line secret", () => {
    expect(maskText("first\n> second", ["first\nsecond"])).toBe("***\n> ***")
  })

  it("prefers a longer secret over a shorter one that begins it", () => {
    expect(maskParts(["abc", "def!"], ["abc", "abcdef"])).toBe("***!")
    expect(maskParts(["xab", "cy"], ["abc", "xabcy"])).toBe("***")
    expect(maskParts(["abc"], ["abc", "abcdef"])).toBe("***")
  })

  it("masks a secret in JSON, with and without escapes", () => {
    const secret = 'pä"ss\\n'
    for (const text of [JSON.stringify({ a: secret }), '{"a":"p\\u00e4\\"ss\\\\n"}']) {
      expect(JSON.parse(text)).toEqual({ a: secret })
      expect(maskText(text, [secret])).toBe('{"a":"***"}')
    }
  })

  it("masks texts, field names and numbers of a value", () => {
    const value = { "12345x": ["my 12345", 12345, 123456, null, true], b: { c: "no" } }
    expect(maskJson(value, ["12345"])).toEqual({ "***x": ["my ***", "***", 123456, null, true], b: { c: "no" } })
    expect(maskJson(value, [])).toBe(value)
  })

  it("does not change a text without a secret, or with a secret that is too short", () => {
    expect(maskText("a b c", ["a", ""])).toBe("a b c")
    expect(createMask(["", "ab"])).toBeNull()
  })

  it("masks a secret and nothing else, for any split of the text", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom("sec", "ret", "secret", "x", "se", "\n", "ecr")), (parts) => {
        const whole = parts.join("")
        expect(maskParts(parts, ["secret"])).toBe(whole.replaceAll("secret", "***"))
      }),
    )
  })
})
