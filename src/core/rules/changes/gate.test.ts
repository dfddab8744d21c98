import { describe, expect, it } from "vitest"
import { fanOut, ifPerInstance, instanceLane, evaluateRule } from "./gate.ts"
import { node } from "../../testing.ts"
import { RUN_WHEN, type RunWhen } from "../../model/workflow.ts"

type Ends = { ok?: number; failed?: number; unmet?: number; waived?: number }
const counts = ({ ok = 0, failed = 0, unmet = 0, waived = 0 }: Ends) => ({
  total: ok + failed + unmet + waived,
  failed,
  unmet,
  waived,
})

describe("evaluateRule", () => {
  // Outcomes of the upstreams: the columns of the table below. null: the rule is met.
  const ends: Ends[] = [
    {},
    { ok: 2 },
    { ok: 1, waived: 1 },
    { waived: 2 },
    { ok: 1, failed: 1 },
    { ok: 1, unmet: 1 },
    { failed: 2 },
    { unmet: 2 },
    { failed: 1, waived: 1 },
  ]
  const table: Record<RunWhen, (null | "unmet" | "waived")[]> = {
    all_success: [null, null, null, null, "unmet", "unmet", "unmet", "unmet", "unmet"],
    all_done: [null, null, null, null, null, null, null, null, null],
    any_failed: ["waived", "waived", "waived", "waived", null, null, null, null, null],
    all_failed: ["waived", "waived", "waived", "waived", "unmet", "unmet", null, null, "unmet"],
    any_success: [null, null, null, "waived", null, null, "unmet", "unmet", "unmet"],
    none_failed: [null, null, null, null, "unmet", null, "unmet", null, "unmet"],
  }

  it.each(RUN_WHEN)("%s follows its row of the table", (rule) => {
    expect(ends.map((end) => evaluateRule(rule, counts(end)))).toEqual(table[rule])
  })
})

describe("fanOut", () => {
  const reference = "discover.files"
  const made = (fan: Parameters<typeof fanOut>[0]): unknown => {
    const plan = fanOut(fan, 10)
    return "problem" in plan ? plan.problem : Array.from({ length: plan.total }, (_, i) => plan.itemAt(i))
  }

  it("makes one instance per item", () => expect(made({ foreach: ["a", "b"], reference })).toEqual(["a", "b"]))
  it("makes N instances without an item", () => expect(made({ parallel: 3, reference })).toEqual([null, null, null]))
  it("makes N instances per item with both", () =>
    expect(made({ foreach: ["a", "b"], parallel: 2, reference })).toEqual(["a", "a", "b", "b"]))
  it("makes none for an empty list", () => expect(made({ foreach: [], reference })).toEqual([]))
  it("reports a reference that is not a list", () =>
    expect(made({ foreach: 5, reference })).toBe("foreach needs a list, but discover.files is the number 5"))
  it("reports a reference that is null", () =>
    expect(made({ foreach: null, reference })).toBe("foreach needs a list, but discover.files is null"))
  it.each([-1, 1.5, "3", null])("rejects %j as a count", (parallel) =>
    expect(made({ parallel, reference })).toMatch(/^parallel needs a whole number of 0 or more, but discover.files is /),
  )
  it("rejects more instances than the limit", () =>
    expect(made({ parallel: 11, reference })).toBe(
      "discover.files makes 11 instances; at most 10 are allowed (ORK_MAX_FANOUT)",
    ))
})

describe("instances and the gate", () => {
  const run = { id: "r", private: false }
  const fan = { foreach: { lit: [] }, reference: "x" }
  it("evaluates an `if` that mentions the item for each instance, any other once", () => {
    expect(ifPerInstance(node("a", { fan, if: "item.size > 3" }))).toBe(true)
    expect(ifPerInstance(node("a", { fan, if: "params.items > 3" }))).toBe(false)
    expect(ifPerInstance(node("a", { if: "params.item > 3" }))).toBe(false)
  })
  it("puts instances into the gate's lane only when their decisions can differ", () => {
    expect(instanceLane(run, node("a", { fan }))).toBe("q:default")
    expect(instanceLane(run, node("a", { fan, cache: { key: "item", ttlMs: null } }))).toBe("g")
    expect(instanceLane(run, node("a", { fan, concurrencyKey: "item" }))).toBe("g")
    expect(instanceLane(run, node("a", { fan, if: "item > 1" }))).toBe("g")
  })
})
