import { describe, expect, it } from "vitest"
import {
  functionOfLane,
  wildcardFunctions,
  functionWildcard,
  wildcardRange,
  gateLane,
  handlerLane,
  isExactLane,
  queueLane,
  queueLimitKey,
  queueOfLane,
  remoteLane,
  workLane,
} from "./lanes.ts"

describe("lanes", () => {
  const shared = { id: "r1", private: false }
  const own = { id: "r1", private: true }

  it("are by queue and sorted labels for shared runs", () => {
    expect(gateLane(shared)).toBe("g")
    expect(workLane(shared, { queue: "etl", labels: [], executor: "process" })).toBe("q:etl")
    expect(queueLane("etl", ["gpu", "big"])).toBe("q:etl|big,gpu")
  })

  it("are the run's own for a private one, whatever its queue", () => {
    expect(gateLane(own)).toBe("p:r1:g")
    expect(workLane(own, { queue: "etl", labels: ["gpu"], executor: "process" })).toBe("p:r1:w")
  })

  it("of work that lives elsewhere are the servers', by queue, whatever its labels", () => {
    const remote = { queue: "etl", labels: ["gpu"], executor: "slurm" }
    expect(workLane(shared, remote)).toBe("s:etl")
    expect(workLane(own, remote)).toBe("p:r1:s")
    expect(queueOfLane(remoteLane(shared, remote))).toBe("etl")
  })

  it("of calls are those of who has the function, by queue and labels", () => {
    const call = { queue: "etl", labels: ["gpu", "big"], executor: "function", function: "resize" }
    expect(workLane(shared, call)).toBe("f:etl|resize|big,gpu")
    expect(workLane(shared, { ...call, labels: [] })).toBe("f:etl|resize")
    expect(workLane(own, call)).toBe("p:r1:w")
    expect(queueOfLane(workLane(shared, call))).toBe("etl")
    expect(functionOfLane(workLane(shared, call))).toBe("resize")
    expect(wildcardFunctions(["q:*", functionWildcard("resize"), "f:etl|send"])).toEqual(["resize"])
    expect(["f:*|resize", "f:etl|send"].filter(isExactLane)).toEqual(["f:etl|send"])
  })

  it("that are all of a kind lie in a range that no other lane is in", () => {
    const kinds = ["f:etl|resize", "g", "h:etl", "p:r1:g", "p:r1:w", "p:r1:s", "q:etl", "q:etl|gpu", "s:etl"]
    const inside = (...lanes: string[]): string[] => {
      const { from, to } = wildcardRange(lanes)!
      return kinds.filter((lane) => lane > from && lane < to)
    }
    expect(inside("q:*")).toEqual(["q:etl", "q:etl|gpu"])
    expect(inside("q:a", "s:*")).toEqual(["s:etl"])
    expect(inside("q:*", "s:*")).toEqual(["q:etl", "q:etl|gpu", "s:etl"])
    expect(wildcardRange(["q:a", "p:r1:s"])).toBeNull()
    expect(["q:*", "s:*", "q:a"].filter(isExactLane)).toEqual(["q:a"])
  })

  it("of work name their queue", () => {
    expect(queueOfLane(queueLane("etl", []))).toBe("etl")
    expect(queueOfLane(queueLane("etl", ["gpu"]))).toBe("etl")
    expect(queueOfLane(handlerLane("etl"))).toBe("etl")
    for (const lane of [gateLane(shared), gateLane(own), workLane(own, { queue: "etl", labels: [], executor: "process" })])
      expect(queueOfLane(lane)).toBeNull()
  })

  it("of a queue share its limit", () => {
    expect(queueLimitKey("etl")).toBe("q:etl")
  })
})
