import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { JOB_STATUSES } from "../../../core/rules/jobs/jobs.ts"
import { systemClock as clock, systemRandom as random } from "../../../engine/system.ts"
import type { JobFilter } from "../../contract/jobs.ts"
import type { Store } from "../../contract/store.ts"
import { Database, type Value } from "../connection/database.ts"
import { InFlightRows } from "../cache/in-flight.ts"
import { searchJobs } from "../jobs/search.ts"
import { migrate } from "./migrations.ts"
import { RunInfoCache } from "../cache/run-info.ts"
import { listRuns } from "../runs/run-reads.ts"
import { dueSchedules, nextTickMs } from "../admin/schedules.ts"
import type { StoreContext } from "../tx.ts"
import { Workflows } from "../cache/workflows.ts"

/** Collects the plan of every executed statement. */
class Explained extends Database {
  readonly plans: string[] = []

  override all<T extends readonly unknown[]>(sql: string, ...values: Value[]): T[] {
    this.#explain(sql, values)
    return super.all<T>(sql, ...values)
  }

  override list<T>(sql: string, ...values: Value[]): T[] {
    this.#explain(sql, values)
    return super.list<T>(sql, ...values)
  }

  #explain(sql: string, values: Value[]): void {
    const steps = super.all<[number, number, number, string]>(`EXPLAIN QUERY PLAN ${sql}`, ...values)
    this.plans.push(...steps.map((step) => step[3]))
  }

  override get<T extends readonly unknown[]>(sql: string, ...values: Value[]): T | undefined {
    return this.all<T>(sql, ...values)[0]
  }
}

const setup = () => {
  const db = new Explained(":memory:")
  onTestFinished(() => db.close())
  migrate(db)
  db.exec(`INSERT INTO workflows (name, created_at) VALUES ('test', '')`)
  const context: StoreContext = {
    db,
    clock,
    random,
    workflows: new Workflows(db),
    runs: new RunInfoCache(db),
    inFlight: new InFlightRows(),
  }
  return { context, plans: db.plans }
}

const seeks = (plans: readonly string[]): void => {
  expect(plans.length).toBeGreaterThan(0)
  for (const step of plans) expect(step).toMatch(/^SEARCH /)
}

const some = <T>(values: readonly T[]): (T | undefined)[] => [undefined, ...values]

/** Steps over the queues, and over the lists of rows that wait. */
const isBounded = (step: string): boolean =>
  /^(CO-ROUTINE|MATERIALIZE|SETUP|RECURSIVE STEP|SCALAR SUBQUERY|COMPOUND QUERY|LEFT-MOST SUBQUERY|UNION|MERGE|LEFT|RIGHT)/.test(
    step,
  ) || /^SCAN (n|names|t|\(subquery.*\)|tasks USING INDEX tasks_(ready|timers|parked)|CONSTANT ROW)$/.test(step)

describe("the cost of a page does not depend on the history", () => {
  it("of runs, by any filter", () => {
    const before = { createdAt: "2026", id: "x" }
    for (const workflow of some(["test"]))
      for (const status of some(["failed"] as const))
        for (const trigger of some(["manual"] as const))
          for (const createdAfter of some(["2025"])) {
            const { context, plans } = setup()
            const query = { workflow, status, trigger, createdAfter, before, limit: 20 }
            const given = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined))
            listRuns(context, given as unknown as Parameters<Store["listRuns"]>[0])
            seeks(plans.filter((step) => !step.includes("workflows")))
          }
  })

  it("of jobs, by any filter", () => {
    for (const [name, queue] of [[], ["n"], ["n", "a"], [undefined, "a"]])
      for (const status of some([...JOB_STATUSES, JOB_STATUSES]))
        for (const priorityMin of some([3]))
          for (const after of some([{ createdAt: "2026", id: "x" }])) {
            const { context, plans } = setup()
            const filter = { name, queue, status, priorityMin, createdAfter: "2025" }
            const given = Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined)) as JobFilter
            searchJobs(context, { filter: given, limit: 20, ...(after !== undefined && { after }) })
            const isMerged = (step: string): boolean => /^(CORRELATED SCALAR SUBQUERY|USE TEMP B-TREE FOR ORDER BY)/.test(step)
            seeks(plans.filter((step) => !isMerged(step) && !isBounded(step)))
          }
  })

  it("of schedules that are due", () => {
    const { context, plans } = setup()
    dueSchedules(context, 9)
    seeks(plans)
    nextTickMs(context)
    expect(plans.at(-1)).toContain("schedules_due")
  })
})

it("no statement has a bare `LIMIT ?`, which SQLite compiles again at each call", () => {
  const folder = join(import.meta.dirname, "..")
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
  for (const file of files.filter((name) => name.endsWith(".ts") && !name.endsWith("plans.test.ts")))
    expect(readFileSync(join(folder, file), "utf8"), file).not.toMatch(/LIMIT \?\d*(?! \+ 0)(?!\d)/)
})
