import { expect, it } from "vitest"
import { claimOrder, precedes } from "./claim-order.ts"

it("writes the claim order as SQL", () => {
  expect(claimOrder()).toBe("priority DESC, run_seq, id")
  expect(claimOrder("t")).toBe("t.priority DESC, t.run_seq, t.id")
})

it("compares two rows in the claim order", () => {
  const column = (row: string) => (name: string) => `${row}.${name}`
  expect(precedes(column("t"), column("h"))).toBe(
    "(t.priority > h.priority OR t.priority = h.priority AND t.run_seq < h.run_seq" +
      " OR t.priority = h.priority AND t.run_seq = h.run_seq AND t.id < h.id)",
  )
})
