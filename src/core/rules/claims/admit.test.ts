import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { admit, PARKED_BY_PAUSE } from "./admit.ts"

const rows = (...limits: number[][]) => limits.map((of, i) => ({ row: i + 1, limits: of, mustPark: false }))

describe("admit", () => {
  it("claims candidates in order until a limit is full and parks the rest under it", () => {
    const { claim, park, used } = admit(rows([7], [7], [7]), new Map([[7, { cap: 3, used: 1 }]]))
    expect(claim).toEqual([1, 2])
    expect(park).toEqual([{ row: 3, limit: 7 }])
    expect(used).toEqual(new Map([[7, 2]]))
  })

  it("parks rows of a paused run as paused", () => {
    const { claim, park } = admit([{ row: 1, limits: [], mustPark: true }], new Map())
    expect({ claim, park }).toEqual({ claim: [], park: [{ row: 1, limit: PARKED_BY_PAUSE }] })
  })

  it("unparks a row of a limit with free slots when a candidate is parked under another limit", () => {
    const limits = new Map([
      [1, { cap: 2, used: 0 }],
      [2, { cap: 1, used: 1 }],
    ])
    expect(admit(rows([1, 2]), limits).unpark).toEqual(new Map([[1, 1]]))
  })

  it("leaves a candidate ready when another transaction has locked its limit", () => {
    const nothing = { claim: [], park: [], used: new Map(), unpark: new Map() }
    expect(admit(rows([9]), new Map())).toEqual(nothing)
    expect(admit([{ row: 1, limits: [9], mustPark: true }], new Map())).toEqual(nothing)
  })

  it("never exceeds a limit, and parks only under a full one", () => {
    const limit = fc.record({ cap: fc.integer({ min: 0, max: 4 }), used: fc.integer({ min: 0, max: 4 }) })
    fc.assert(
      fc.property(
        fc.array(limit, { minLength: 3, maxLength: 3 }),
        fc.array(fc.subarray([0, 1, 2]), { maxLength: 20 }),
        (caps, of) => {
          const limits = new Map(caps.map((state, i) => [i + 1, state]))
          const result = admit(rows(...of.map((ids) => ids.map((id) => id + 1))), limits)
          for (const [id, { cap, used }] of limits) {
            const more = result.used.get(id) ?? 0
            expect(more === 0 || used + more <= cap).toBe(true)
          }
          for (const { limit } of result.park) {
            const { cap, used } = limits.get(limit)!
            expect(used + (result.used.get(limit) ?? 0)).toBeGreaterThanOrEqual(cap)
          }
          expect(result.claim.length + result.park.length).toBe(of.length)
        },
      ),
    )
  })
})
