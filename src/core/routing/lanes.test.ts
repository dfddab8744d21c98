import { describe, expect, it } from "vitest"
import {
  requirementOfLane,
  wildcardRequirements,
  restrictedWildcard,
  wildcardRange,
  gateLane,
  handlerLane,
  isExactLane,
  queueLane,
  queueOfLane,
  remoteLane,
  workLane,
} from "./lanes.ts"
import { queueLimitKey } from "./limit-keys.ts"

describe("lanes", () => {
  const shared = { id: "r1", private: false }
  const own = { id: "r1", private: true }

  it("of shared runs name the queue and the sorted labels", () => {
    expect(gateLane(shared)).toBe("g")
    expect(workLane(shared, { queue: "etl", labels: [], executor: "process" })).toBe("q:etl")
    expect(queueLane("etl", ["gpu", "big"])).toBe("f:etl||big,gpu")
  })

  it("of a private run name the run, whatever the queue", () => {
    expect(gateLane(own)).toBe("p:r1:g")
    expect(workLane(own, { queue: "etl", labels: ["gpu"], executor: "process" })).toBe("p:r1:w")
  })

  it("of remote work name the queue, whatever its labels", () => {
    const remote = { queue: "etl", labels: ["gpu"], executor: "slurm" }
    expect(workLane(shared, remote)).toBe("s:etl")
    expect(workLane(own, remote)).toBe("p:r1:s")
    expect(queueOfLane(remoteLane(shared, remote))).toBe("etl")
  })

  it("of function calls name the queue, the function and the labels", () => {
    const call = { queue: "etl", labels: ["gpu", "big"], executor: "function", function: "resize" }
    expect(workLane(shared, call)).toBe("f:etl|resize|big,gpu")
    expect(workLane(shared, { ...call, labels: [] })).toBe("f:etl|resize")
    expect(workLane(own, call)).toBe("p:r1:w")
    expect(queueOfLane(workLane(shared, call))).toBe("etl")
    expect(requirementOfLane(workLane(shared, call))).toBe("resize|big,gpu")
    expect(
      wildcardRequirements(["q:*", restrictedWildcard("resize", []), restrictedWildcard("", ["gpu", "big"]), "f:etl|send"]),
    ).toEqual(["resize", "|big,gpu"])
    expect(["f:*|resize", "f:etl|send"].filter(isExactLane)).toEqual(["f:etl|send"])
  })

  it("of a wildcard lie in a range that contains no other lane", () => {
    const kinds = ["f:etl|resize", "g", "h:etl", "p:r1:g", "p:r1:w", "p:r1:s", "q:etl", "f:etl||gpu", "s:etl"]
    const inside = (...lanes: string[]): string[] => {
      const { from, to } = wildcardRange(lanes)!
      return kinds.filter((lane) => lane > from && lane < to)
    }
    expect(inside("q:*")).toEqual(["q:etl"])
    expect(inside("q:a", "s:*")).toEqual(["s:etl"])
    expect(inside("q:*", "s:*")).toEqual(["q:etl", "s:etl"])
    expect(wildcardRange(["q:a", "p:r1:s"])).toBeNull()
    expect(["q:*", "s:*", "q:a"].filter(isExactLane)).toEqual(["q:a"])
  })

  it("name the queue of their work", () => {
    expect(queueOfLane(queueLane("etl", []))).toBe("etl")
    expect(queueOfLane(queueLane("etl", ["gpu"]))).toBe("etl")
    expect(queueOfLane(handlerLane("etl"))).toBe("etl")
    for (const lane of [gateLane(shared), gateLane(own), workLane(own, { queue: "etl", labels: [], executor: "process" })])
      expect(queueOfLane(lane)).toBeNull()
  })

  it("of one queue share the limit of the queue", () => {
    expect(queueLimitKey("etl")).toBe("q:etl")
  })
})
