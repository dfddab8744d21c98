import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { createMask, maskText } from "./mask.ts"

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
