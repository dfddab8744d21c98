import { describe, expect, it } from "vitest"
import type { JobStatus } from "./jobs.ts"
import { planJob, planNewJobs, rejectChange, rejectDependencies, rejectNewJobs } from "./job-plan.ts"

const job = (id: string, ...dependencies: string[]) => ({ id, dependencies })
const known = (statuses: Record<string, JobStatus> = {}) =>
  new Map(Object.entries(statuses).map(([id, status]) => [id, { status }]))
const statuses = (of: Record<string, JobStatus>) => new Map(Object.entries(of))

describe("new jobs", () => {
  it("are accepted when they depend on existing jobs and on each other", () => {
    expect(rejectNewJobs([job("b", "a", "x"), job("a")], known({ x: "RUNNING" }))).toBeNull()
  })

  it("are rejected when one exists, also within the same call", () => {
    expect(rejectNewJobs([job("a")], known({ a: "READY" }))).toEqual({ rejected: "exists", id: "a" })
    expect(rejectNewJobs([job("a"), job("a")], known())).toEqual({ rejected: "exists", id: "a" })
  })

  it("are rejected when they form a cycle", () => {
    const rejection = rejectNewJobs([job("a", "b"), job("b", "a")], known())
    expect(rejection).toMatchObject({ rejected: "cycle", path: expect.arrayContaining(["a", "b"]) })
  })

  it("are rejected when a dependency does not exist", () => {
    expect(rejectNewJobs([job("a", "x")], known())).toEqual({ rejected: "missing_dependency", id: "a", dependency: "x" })
  })

  it("are planned in the order of their ids", () => {
    const planned = planNewJobs([job("c"), job("a"), job("b")], new Map())
    expect(planned.map(({ job: { id } }) => id)).toEqual(["a", "b", "c"])
  })

  it("below a blocked one are blocked as well, each by its own dependency", () => {
    const planned = planNewJobs([job("a", "x"), job("b", "a"), job("c")], statuses({ x: "FAILED" }))
    expect(planned.map(({ plan: { status, error } }) => [status, error])).toEqual([
      ["BLOCKED", expect.stringContaining("x")],
      ["BLOCKED", expect.stringContaining("a")],
      ["READY", null],
    ])
  })
})

describe("the plan of a job", () => {
  it.each([
    [{}, [], { status: "READY", rowStatus: "pending", pending: 0 }],
    [{ x: "COMPLETED" }, ["x"], { status: "READY", rowStatus: "pending", pending: 0 }],
    [{ x: "COMPLETED", y: "RUNNING" }, ["x", "y"], { status: "PENDING", rowStatus: "pending", pending: 1 }],
    [{ x: "BLOCKED", y: "READY" }, ["y", "x"], { status: "BLOCKED", rowStatus: "skipped", pending: 2 }],
  ] as const)("with dependencies %j of %j", (of, dependencies, expected) => {
    expect(planJob(dependencies, statuses(of))).toMatchObject(expected)
  })

  it("counts a dependency once that is named twice", () => {
    expect(planJob(["x", "x"], statuses({ x: "READY" })).pending).toBe(1)
  })
})

describe("a change of a job", () => {
  it("is rejected once the job is finished", () => {
    expect(rejectChange("COMPLETED")).toEqual({ rejected: "terminal", status: "COMPLETED" })
    expect(rejectChange("RUNNING")).toBeNull()
  })

  it.each(["PENDING", "RUNNING"] as const)("of dependencies reports a cycle while the job is %s", (status) => {
    const edges = new Map([["b", ["a"]]])
    expect(rejectDependencies({ ...job("a"), status }, ["b"], known({ b: "PENDING" }), edges)).toMatchObject({
      rejected: "cycle",
    })
  })

  it("of dependencies is accepted only while the job is pending, unless they stay the same", () => {
    const existing = known({ b: "READY", c: "READY" })
    const change = (status: JobStatus, ...to: string[]) =>
      rejectDependencies({ ...job("a", "b"), status }, to, existing, new Map())
    expect(change("PENDING", "c")).toBeNull()
    expect(change("RUNNING", "b")).toBeNull()
    expect(change("RUNNING", "c")).toEqual({ rejected: "not_pending" })
    expect(change("PENDING", "x")).toMatchObject({ rejected: "missing_dependency" })
  })
})
