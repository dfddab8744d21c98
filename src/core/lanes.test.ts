import { describe, expect, it } from "vitest"
import { gateLane, handlerLane, queueLane, queueLimit, queueOf, remoteLane, workLane } from "./lanes.ts"

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

  it("of work that lives elsewhere are the servers', whatever its queue", () => {
    const remote = { queue: "etl", labels: ["gpu"], executor: "slurm" }
    expect(workLane(shared, remote)).toBe("s")
    expect(workLane(own, remote)).toBe("p:r1:s")
    expect(queueOf(remoteLane(shared))).toBeNull()
  })

  it("of work name their queue", () => {
    expect(queueOf(queueLane("etl", []))).toBe("etl")
    expect(queueOf(queueLane("etl", ["gpu"]))).toBe("etl")
    expect(queueOf(handlerLane("etl"))).toBe("etl")
    for (const lane of [gateLane(shared), gateLane(own), workLane(own, { queue: "etl", labels: [], executor: "process" })])
      expect(queueOf(lane)).toBeNull()
  })

  it("of a queue share its limit", () => {
    expect(queueLimit("etl")).toBe("q:etl")
  })
})
