import { expect, it } from "vitest"
import { claimOrder, precedesReady, readyOrder } from "./claim-order.ts"

it("writes the claim order as SQL", () => {
  expect(claimOrder()).toBe("priority DESC, run_seq, id")
  expect(claimOrder("t")).toBe("t.priority DESC, t.run_seq, t.id")
})

it("groups the rows of a lane by workflow below their priority", () => {
  expect(readyOrder("q")).toBe("q.priority DESC, q.workflow_id, q.run_seq, q.id")
})

it("compares a row with the head of the queue in the claim order", () => {
  const columns = (alias: string) => (name: string) => `${alias}.${name}`
  expect(precedesReady(columns("t"), columns("h")).replaceAll(/\s+/g, " ")).toBe(
    "(t.lane = h.lane AND (t.priority > h.priority OR t.workflow_id = h.workflow_id AND (t.priority > h.priority" +
      " OR t.priority = h.priority AND t.run_seq < h.run_seq" +
      " OR t.priority = h.priority AND t.run_seq = h.run_seq AND t.id < h.id)))",
  )
})
