import fc from "fast-check"
import { describe, expect, it } from "vitest"
import {
  dependencyStatus,
  detectCycle,
  isJobFinished,
  JOB_STATUSES,
  type JobStatus,
  type JobWithStatus,
  retryDelay,
  shouldRetry,
} from "./jobs.ts"
import { canTransition, compareJobs, orderJobs, propagateCompletion, propagateFailure, selectNextJobs } from "./published.ts"

const graph = (edges: Record<string, string[]>): Map<string, string[]> => new Map(Object.entries(edges))

describe("detectCycle", () => {
  it("finds no cycle without dependencies", () => {
    expect(detectCycle("a", [], graph({ b: ["a"] }))).toEqual({ has_cycle: false, cycle_path: [] })
  })

  it("calls a job that depends on itself a cycle of length 1", () => {
    expect(detectCycle("a", ["a"], graph({}))).toEqual({ has_cycle: true, cycle_path: ["a"] })
  })

  it("returns the jobs of a cycle in dependency order", () => {
    expect(detectCycle("a", ["b"], graph({ b: ["c"], c: ["a"] }))).toEqual({ has_cycle: true, cycle_path: ["a", "b", "c"] })
  })

  it("excludes jobs that only lead to the cycle", () => {
    expect(detectCycle("new", ["b"], graph({ b: ["c"], c: ["b"] })).cycle_path).toEqual(["b", "c"])
  })

  it("treats a missing dependency as an external reference", () => {
    expect(detectCycle("a", ["elsewhere"], graph({})).has_cycle).toBe(false)
  })

  it("does not report a diamond", () => {
    expect(detectCycle("d", ["b", "c"], graph({ b: ["a"], c: ["a"], a: [] })).has_cycle).toBe(false)
  })

  it("handles a chain of 100,000 jobs", () => {
    const chain = new Map(Array.from({ length: 100_000 }, (_, i) => [`${i}`, [`${i + 1}`]] as const))
    expect(detectCycle("new", ["0"], chain).has_cycle).toBe(false)
    expect(detectCycle("100000", ["0"], chain).cycle_path).toHaveLength(100_001)
  })

  it("agrees with a naive search, and returns a path that is a cycle", () => {
    const arbitrary = fc.array(fc.array(fc.nat(7), { maxLength: 4 }), { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(arbitrary, (lists) => {
        const edges = new Map(lists.map((list, i) => [`${i}`, list.map(String)]))
        const from = (start: string): Set<string> => {
          const seen = new Set<string>()
          const left = [...(edges.get(start) ?? [])]
          while (left.length > 0) {
            const id = left.pop()!
            if (!seen.has(id)) left.push(...(edges.get(id) ?? []))
            seen.add(id)
          }
          return seen
        }
        const reached = ["0", ...from("0")]
        const { has_cycle, cycle_path } = detectCycle("0", edges.get("0")!, edges)
        expect(has_cycle).toBe(reached.some((id) => from(id).has(id)))
        for (const [i, id] of cycle_path.entries()) {
          expect(edges.get(id)).toContain(cycle_path[(i + 1) % cycle_path.length])
        }
        expect(new Set(cycle_path).size).toBe(cycle_path.length)
      }),
    )
  })
})

describe("dependencyStatus", () => {
  const of = (...statuses: JobStatus[]) => {
    const named = statuses.map((status, i) => [`${i}`, status] as const)
    return dependencyStatus({ dependencies: named.map(([id]) => id) }, new Map(named))
  }

  it.each([
    [[], "SATISFIED"],
    [["COMPLETED", "COMPLETED"], "SATISFIED"],
    [["COMPLETED", "PENDING"], "WAITING"],
    [["READY"], "WAITING"],
    [["RUNNING", "COMPLETED"], "WAITING"],
    [["FAILED"], "BLOCKED"],
    [["PENDING", "BLOCKED"], "BLOCKED"],
    [["RUNNING", "COMPLETED", "FAILED"], "BLOCKED"],
  ] as [JobStatus[], string][])("of %j is %s", (statuses, expected) => {
    expect(of(...statuses)).toBe(expected)
  })

  it("waits for a dependency without a known status", () => {
    expect(dependencyStatus({ dependencies: ["x"] }, new Map())).toBe("WAITING")
  })
})

describe("the order of jobs", () => {
  const job = (id: string, priority: number, created_at: string) => ({ id, priority, created_at })

  it("goes by priority, then age, then id", () => {
    const jobs = [
      job("d", 5, "2026-01-02T00:00:00.000Z"),
      job("c", 5, "2026-01-01T00:00:00.000Z"),
      job("b", 5, "2026-01-01T00:00:00.000Z"),
      job("a", 1, "2025-01-01T00:00:00.000Z"),
      job("e", 10, "2026-01-03T00:00:00.000Z"),
    ]
    expect(orderJobs(jobs).map(({ id }) => id)).toEqual(["e", "b", "c", "d", "a"])
    expect(jobs[0]!.id).toBe("d")
  })

  const arbitrary = fc.record({
    id: fc.uuid(),
    priority: fc.integer({ min: 1, max: 10 }),
    created_at: fc.integer({ min: 0, max: 5 }).map((day) => new Date(day * 86_400_000).toISOString()),
  })

  it("is total: the result does not depend on the input order", () => {
    fc.assert(
      fc.property(fc.uniqueArray(arbitrary, { selector: ({ id }) => id }), (jobs) => {
        expect(orderJobs(jobs.toReversed())).toEqual(orderJobs(jobs))
      }),
    )
  })

  it("is consistent: only identical jobs compare as equal", () => {
    fc.assert(
      fc.property(arbitrary, arbitrary, (a, b) => {
        expect(Math.sign(compareJobs(a, b))).toBe(-Math.sign(compareJobs(b, a)) + 0)
      }),
    )
  })

  it("fills the free slots only", () => {
    const jobs = [job("a", 1, "2026-01-01T00:00:00.000Z"), job("b", 2, "2026-01-01T00:00:00.000Z")]
    expect(selectNextJobs(jobs, 3, 4).map(({ id }) => id)).toEqual(["b"])
    expect(selectNextJobs(jobs, 4, 4)).toEqual([])
    expect(selectNextJobs(jobs, 5, 4)).toEqual([])
    expect(selectNextJobs(jobs, 0, 10)).toHaveLength(2)
  })
})

describe("retries", () => {
  const policy = (backoff_strategy: "FIXED" | "LINEAR" | "EXPONENTIAL", base = 10, max = 300) => ({
    backoff_strategy,
    base_delay_seconds: base,
    max_delay_seconds: max,
  })

  it.each([
    ["FIXED", [10, 10, 10, 10]],
    ["LINEAR", [10, 20, 30, 40]],
    ["EXPONENTIAL", [10, 20, 40, 80]],
  ] as const)("%s waits %j seconds", (strategy, delays) => {
    expect([1, 2, 3, 4].map((attempt) => retryDelay(policy(strategy), attempt))).toEqual(delays)
  })

  it("caps growing delays, but not fixed ones", () => {
    expect(retryDelay(policy("LINEAR", 100, 250), 3)).toBe(250)
    expect(retryDelay(policy("EXPONENTIAL", 100, 250), 2000)).toBe(250)
    expect(retryDelay(policy("FIXED", 100, 50), 3)).toBe(100)
  })

  it("never waits less after a later attempt", () => {
    const strategies = fc.constantFrom("FIXED" as const, "LINEAR" as const, "EXPONENTIAL" as const)
    fc.assert(
      fc.property(
        strategies,
        fc.integer({ min: 1, max: 300 }),
        fc.integer({ min: 1, max: 3300 }),
        fc.nat(50),
        (s, base, more, n) => {
          const retry = policy(s, base, base + more)
          expect(retryDelay(retry, n + 2)).toBeGreaterThanOrEqual(retryDelay(retry, n + 1))
          expect(retryDelay(retry, n + 1)).toBeLessThanOrEqual(base + more)
        },
      ),
    )
  })

  it("stop at the last attempt", () => {
    const job = (attempt_count: number) => ({ attempt_count, retry_policy: { max_attempts: 3 } })
    expect([0, 1, 2, 3, 4].map((count) => shouldRetry(job(count)))).toEqual([true, true, true, false, false])
  })
})

describe("transitions", () => {
  const allowed = ["PENDING READY", "PENDING BLOCKED", "READY RUNNING", "RUNNING COMPLETED", "RUNNING READY", "RUNNING FAILED"]

  it("are those of the table and no others", () => {
    const found = JOB_STATUSES.flatMap((from) =>
      JOB_STATUSES.filter((to) => canTransition(from, to)).map((to) => `${from} ${to}`),
    )
    expect(found.toSorted()).toEqual(allowed.toSorted())
  })

  it("end in COMPLETED, FAILED and BLOCKED", () => {
    expect(JOB_STATUSES.filter(isJobFinished)).toEqual(["COMPLETED", "FAILED", "BLOCKED"])
  })
})

describe("cascades", () => {
  const job = (id: string, dependencies: string[], status: JobStatus = "PENDING"): JobWithStatus => ({
    id,
    dependencies,
    status,
  })

  it("block every pending job below a failure", () => {
    const jobs = [job("a", [], "FAILED"), job("b", ["a"]), job("c", ["b"]), job("d", ["x"]), job("e", ["c", "d"])]
    expect(propagateFailure("a", jobs)).toEqual(new Set(["b", "c", "e"]))
  })

  it("stop at a job that is not pending", () => {
    const jobs = [job("a", [], "FAILED"), job("b", ["a"], "BLOCKED"), job("c", ["b"])]
    expect(propagateFailure("a", jobs)).toEqual(new Set())
  })

  it("handle a chain of 100,000 jobs and a cycle", () => {
    const chain = Array.from({ length: 100_000 }, (_, i) => job(`${i + 1}`, [`${i}`]))
    expect(propagateFailure("0", chain).size).toBe(100_000)
    expect(propagateFailure("a", [job("b", ["a", "c"]), job("c", ["b"])])).toEqual(new Set(["b", "c"]))
  })

  it("make the jobs ready that waited only for this completion", () => {
    const jobs = [
      job("a", [], "RUNNING"),
      job("x", [], "RUNNING"),
      job("b", ["a"]),
      job("c", ["a", "x"]),
      job("d", ["x"]),
      job("e", ["a"], "BLOCKED"),
      job("f", ["a", "gone"]),
    ]
    expect(propagateCompletion("a", jobs)).toEqual(new Set(["b"]))
  })

  it("make exactly the satisfied dependents ready", () => {
    const statuses = fc.constantFrom(...JOB_STATUSES)
    const arbitrary = fc.array(fc.tuple(statuses, fc.array(fc.nat(6), { maxLength: 3 })), { minLength: 2, maxLength: 7 })
    fc.assert(
      fc.property(arbitrary, (rows) => {
        const jobs = rows.map(([status, dependencies], i) =>
          job(`${i}`, dependencies.map(String), i === 0 ? "COMPLETED" : status),
        )
        const known = new Map(jobs.map(({ id, status }) => [id, status]))
        const expected = jobs.filter(
          (one) => one.status === "PENDING" && one.dependencies.includes("0") && dependencyStatus(one, known) === "SATISFIED",
        )
        expect(propagateCompletion("0", jobs)).toEqual(new Set(expected.map(({ id }) => id)))
      }),
    )
  })
})
