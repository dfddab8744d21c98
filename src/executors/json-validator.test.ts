import fc from "fast-check"
import { expect, test } from "vitest"
import { JsonValidator } from "./json-validator.ts"

/** Validates bytes in pieces of the given sizes. */
const check = (data: string | Uint8Array, sizes: number[] = []): string | null => {
  const bytes = Buffer.from(data as string)
  const validator = new JsonValidator()
  let at = 0
  for (const size of [...sizes, bytes.length]) {
    validator.push(bytes.subarray(at, at + size))
    at += size
  }
  return validator.end()
}

const parses = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Returns whether JSON.parse changes a number of the text, which the validator rejects. */
const hasInexactNumber = (text: string): boolean => {
  let found = false
  try {
    JSON.parse(text, (_, value: unknown) => {
      if (typeof value === "number" && !(Math.abs(value) <= Number.MAX_SAFE_INTEGER)) found = true
      return value
    })
  } catch {
    return false
  }
  return found
}

test("every JSON value is valid, wherever it is split", () => {
  fc.assert(
    fc.property(
      fc.jsonValue(),
      fc.array(fc.integer({ min: 0, max: 9 })),
      fc.constantFrom(undefined, 1, "\t"),
      (value, sizes, space) => {
        expect(check(JSON.stringify(value, null, space), sizes)).toBeNull()
      },
    ),
  )
})

test("text that is nearly JSON is valid if JSON.parse accepts it", () => {
  const piece = fc.constantFrom(...'{}[],:"\\ue1-+.0 \n', "true", "null", "nul", '"a"', '"\\u00e', "1.5e3", "01", "\u0001")
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), fc.array(fc.integer({ min: 0, max: 3 })), (pieces, sizes) => {
      const text = pieces.join("")
      if (hasInexactNumber(text)) return
      expect(check(text, sizes) === null, JSON.stringify(text)).toBe(parses(text))
    }),
    { numRuns: 5000 },
  )
})

test("a valid value with one changed character is valid if JSON.parse accepts it", () => {
  const change = fc.tuple(fc.nat(), fc.constantFrom(...'{}[],:"\\0e-. x'))
  fc.assert(
    fc.property(fc.jsonValue(), change, (value, [position, character]) => {
      const text = JSON.stringify(value)
      const at = position % text.length
      const changed = text.slice(0, at) + character + text.slice(at + 1)
      if (/[\ud800-\udfff]/.test(changed) || hasInexactNumber(changed)) return
      expect(check(changed) === null, changed).toBe(parses(changed))
    }),
    { numRuns: 2000 },
  )
})

test("the problem is described", () => {
  expect(check("")).toBe("it ends too early")
  expect(check("[1,")).toBe("it ends too early")
  expect(check("[1,]")).toBe('expected a value, found "]"')
  expect(check('{"a" 1}')).toBe('expected ":", found "1"')
  expect(check("{} {}")).toBe('expected nothing after the value, found "{"')
  expect(check("[nul]")).toBe("unknown value nul")
  expect(check(Uint8Array.of(0x22, 0xff, 0x22))).toBe("it is not valid UTF-8")
  expect(check(Uint8Array.of(0x22, 0xc3))).toBe("it ends inside a character")
})

test("endless numbers and nesting are rejected", () => {
  expect(check("1".repeat(100_000))).toBe("a number is too long")
  expect(check("1".repeat(2000), [500, 500, 500])).toBe("a number is too long")
  expect(check("[".repeat(20_000))).toMatch(/nested deeper than 10000/)
})
