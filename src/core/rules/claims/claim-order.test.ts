import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { CLAIM_ORDER, compareReady, precedesReady, type ReadyRow } from "./claim-order.ts"

const head: ReadyRow = { lane: "q", priority: 5, workflowId: 1, runSeq: 10, rowId: 100 }

describe("the claim order", () => {
  it("follows its list of sort keys", () => {
    const small = fc.integer({ min: 0, max: 2 })
    const row = fc.record({ priority: small, runSeq: small, rowId: small })
    fc.assert(
      fc.property(row, row, (a, b) => {
        const first = CLAIM_ORDER.find(({ key }) => a[key] !== b[key])
        const expected = first === undefined ? 0 : (a[first.key] - b[first.key]) * (first.descending ? -1 : 1)
        expect(Math.sign(compareReady(a, b))).toBe(Math.sign(expected))
      }),
    )
  })
})

describe("a row that becomes ready", () => {
  it.each([
    [{}, false],
    [{ rowId: 99 }, true],
    [{ runSeq: 9, rowId: 200 }, true],
    [{ runSeq: 11, rowId: 1 }, false],
    [{ priority: 6, workflowId: 2 }, true],
    [{ priority: 4, rowId: 1 }, false],
    [{ workflowId: 2, rowId: 1 }, false],
    [{ lane: "p", priority: 9 }, false],
  ])("that differs from the head of the queue by %j precedes it: %s", (difference, expected) => {
    expect(precedesReady({ ...head, ...difference }, head)).toBe(expected)
  })

  it("precedes an empty queue", () => {
    expect(precedesReady(head, null)).toBe(true)
  })
})
