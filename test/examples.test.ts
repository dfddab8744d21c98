// Every file in examples/ runs and does what its comments say, on both stores.

import { cpSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { afterAll, describe, expect, test } from "vitest"
import { createDatabase, type TestDatabase } from "./support/components/postgres.ts"
import { ork, orkRun, REPO, temporaryFolder, type OrkEvent } from "./support/ork.ts"

const EXAMPLES = join(REPO, "examples")

interface Expected {
  args?: string[]
  code?: number
  tasks: Record<string, number>
  /** The last lines of `ork logs`, by task. */
  logs?: Record<string, string>
}

const TABLE: Record<string, Expected> = {
  "hello.yaml": { tasks: { success: 2 }, logs: { part: "Bye from attempt 1 of part" } },
  "params.yaml": {
    args: ["--param", "name=Ada"],
    tasks: { success: 2, skipped: 1 },
    logs: { summary: '{"greeted": "Ada", "letters": 3}' },
  },
  "diamond.yaml": { tasks: { success: 4 }, logs: { report: "42 pieces of 2 kinds" } },
  "foreach.yaml": { tasks: { success: 6 }, logs: { report: '"longest":["amber.csv","birch.csv","cedar.csv"]' } },
  "groups.yaml": { tasks: { success: 12 }, logs: { report: '"totals":[[6,5],[6]]' } },
  "parallel.yaml": { tasks: { success: 6 }, logs: { total: '"sums":[45,50,55,60]' } },
  "wait.yaml": { tasks: { success: 4, skipped: 1 }, logs: { load: "loaded 7, optional skipped" } },
  "retry.yaml": { tasks: { success: 2 }, logs: { report: "it took 3 attempts" } },
  "timeout.yaml": {
    code: 1,
    tasks: { success: 2, failed: 1, skipped: 1 },
    logs: { cleanup: "publish was skipped; cleaning up" },
  },
  "hooks.yaml": { code: 1, tasks: { failed: 1 }, logs: { "on_failure.0": "page somebody about hooks, which ended as failed" } },
  "conditions.yaml": { tasks: { success: 3, skipped: 1 }, logs: { done: "small was skipped, large was success" } },
  "cache.yaml": { tasks: { success: 2 }, logs: { report: "built by run" } },
  "approval.yaml": { tasks: { success: 4 }, logs: { ship: "shipped, though nobody answered within 1s" } },
  "sub-workflow.yaml": { tasks: { success: 3 }, logs: { report: '["Hello Ada","Hello Grace"]' } },
  "greet.yaml": { tasks: { success: 1 } },
  "functions.yaml": { tasks: { success: 4 }, logs: { report: "9 words in 3 parts" } },
  "registered.yaml": {
    args: ["--handlers", "functions/registered.ts"],
    tasks: { success: 4 },
    logs: { report: "3 sizes up to 1280" },
  },
  "python.yaml": {
    code: 1,
    tasks: { success: 2, failed: 1 },
    logs: { load: "loaded 40 rows", rescue: "check said no after one attempt; rescuing" },
  },
  "environment.yaml": {
    tasks: { success: 2 },
    logs: { shop: "the corner shop sells in EUR", report: "corner shop in USD" },
  },
  "limits.yaml": { tasks: { success: 4 } },
  "nightly.yaml": { args: ["--param", "day=2026-01-31"], tasks: { success: 6 }, logs: { report: '"rows":[3,5,2]' } },
  "after.yaml": { tasks: { success: 1 }, logs: { report: "the report of 2026-01-01, started by manual" } },
  "words.json": { tasks: { success: 3 }, logs: { report: '"different":4' } },
  "list-form.json": { tasks: { success: 4 }, logs: { D: "D" } },
  "artifacts.yaml": { tasks: { success: 4 }, logs: { report: "amber.csv birch.csv" } },
  "files.yaml": { tasks: { success: 2 }, logs: { report: "3 cities" } },
  "allowed-failures.yaml": {
    tasks: { success: 2, failed: 1, skipped: 1 },
    logs: { report: "optional failed, load skipped" },
  },
  "versions.yaml": { tasks: { success: 5 } },
  "scripts.yaml": { tasks: { success: 3 }, logs: { report: "longest name: rome.csv" } },
}

/** Copies an example, so that a run leaves nothing in the checkout. */
const copy = (): string => {
  const cwd = temporaryFolder()
  cpSync(EXAMPLES, cwd, { recursive: true })
  return cwd
}

const order = (events: OrkEvent[], status: string): (string | undefined)[] =>
  events.filter((event) => event.event === "task" && event.status === status).map((event) => event.task)

test("the table lists every example", () => {
  const definitions = readdirSync(EXAMPLES).filter((name) => name.includes(".") && !name.includes(".ork-test."))
  expect(definitions.toSorted()).toEqual(Object.keys(TABLE).toSorted())
})

let postgres: Promise<TestDatabase> | undefined
afterAll(async () => (await postgres)?.drop())

const STORES: Record<string, () => Promise<Record<string, string>>> = {
  sqlite: () => Promise.resolve({}),
  postgres: async () => ({ ORK_DATABASE_URL: (await (postgres ??= createDatabase())).url }),
}

/** On Postgres, `npm test` runs a third of the examples, and `npm run test:all` runs all. */
const playedOn = (store: string): [string, Expected][] =>
  Object.entries(TABLE).filter((_, i) => store !== "postgres" || process.env["ORK_TEST_ALL"] === "1" || i % 3 === 0)

describe.each(Object.entries(STORES))("on %s", (store, environment) => {
  test.each(playedOn(store))("%s runs", async (file, { args = [], code = 0, tasks, logs = {} }) => {
    const at = { cwd: copy(), env: await environment() }
    const result = await orkRun([file, ...args], at)
    expect({ code: result.code, status: result.run.status }).toEqual({ code, status: code === 0 ? "success" : "failed" })
    expect(Object.fromEntries(Object.entries(result.run.tasks).filter(([, count]) => count > 0))).toEqual(tasks)
    for (const [task, text] of Object.entries(logs)) {
      const printed = await ork(["logs", result.run.id, task], at)
      expect(printed.stdout.trimEnd()).toContain(text)
    }
  })
})

test("the cases of the examples pass, and say how many there are", async () => {
  const { code, stdout, stderr } = await ork(["test", "examples"], { cwd: REPO })
  expect({ code, stderr, end: stdout.trimEnd().split("\n").at(-1) }).toEqual({
    code: 0,
    stderr: "",
    end: "7 cases, all passed",
  })
})

test("limits.yaml runs one task at a time, by priority", async () => {
  const { events } = await orkRun(["limits.yaml"], { cwd: copy() })
  expect(order(events, "success")).toEqual(["start", "urgent", "normal", "low"])
  expect(order(events, "running")).toEqual(["start", "urgent", "normal", "low"])
})

test("cache.yaml builds once for two runs", async () => {
  const cwd = copy()
  const [first, second] = [await orkRun(["cache.yaml"], { cwd }), await orkRun(["cache.yaml"], { cwd })]
  expect(order(first.events, "running")).toContain("build")
  expect(order(second.events, "running")).not.toContain("build")
  const printed = await ork(["logs", second.run.id, "report"], { cwd })
  expect(printed.stdout).toContain(`built by run ${first.run.id}`)
})

test("params.yaml rejects a number that is out of bounds before anything runs", async () => {
  const { code, stderr } = await ork(["run", "params.yaml", "--param", "times=9"], { cwd: copy() })
  expect(code).toBe(2)
  expect(stderr).toContain("times")
})
