import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { isUuid, newRunId, parseRunId, taskId } from "./ids.ts"

const hex = fc.string({ unit: fc.constantFrom(..."0123456789abcdef"), minLength: 32, maxLength: 32 })

describe("ids", () => {
  it("are UUIDv7 and sort by time", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4e12 }), hex, (ms, random) => {
        const id = newRunId(ms, random)
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
        expect(newRunId(ms + 1, random) > id).toBe(true)
      }),
    )
  })

  it("of tasks contain the row and the prefix of the run id", () => {
    fc.assert(
      fc.property(hex, fc.integer({ min: 1, max: 2 ** 40 - 1 }), (random, row) => {
        const run = newRunId(1_800_000_000_000, random)
        const id = taskId(run, row)
        expect(isUuid(id)).toBe(true)
        expect([id.slice(0, 26), Number.parseInt(id.slice(26), 16)]).toEqual([run.slice(0, 26), row])
      }),
    )
  })

  it.each(["", "nope", "../../etc/passwd", "0198F000-0000-7000-8000-000000000001"])("reject %j", (text) => {
    expect(parseRunId(text)).toBeNull()
  })
})
