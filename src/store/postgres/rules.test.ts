// Rules of core that statements evaluate in SQL: both must agree on generated rows.

import fc from "fast-check"
import { afterAll, beforeAll, expect, it } from "vitest"
import { ask, createDatabase, type TestDatabase } from "../../../test/support/components/postgres.ts"
import { precedesReady, type ReadyRow } from "../../core/rules/claims/claim-order.ts"
import { countFinish } from "../../core/rules/changes/effects.ts"
import { availableStarts, openBucket } from "../../core/rules/claims/queue-budget.ts"
import { freeSlots } from "../../core/rules/claims/slots.ts"
import { decideResume, decideStart, type RunHold } from "../../core/rules/claims/startable.ts"
import { cancelEffect } from "../../core/rules/changes/cancel-effect.ts"
import { TASK_STATUSES } from "../../core/model/status.ts"
import { IS_CANCELLABLE, IS_HALF_CREATED } from "../shared/cancellable.ts"
import { HAS_NOT_STARTED, hasNotStarted } from "../shared/job-rows.ts"
import { CONTAINER_COUNTS, RUN_COUNTS } from "./advance/count-down.ts"
import { PRECEDES_READY } from "./advance/finish-successes.ts"
import { MUST_PARK_RESUMED } from "./advance/waiting.ts"
import { IS_CLAIMABLE, IS_PAUSED } from "./claim/candidates.ts"
import { FREE_SLOTS } from "./claim/limits.ts"
import { ALLOWS_NO_START } from "./claim/queue-budget.ts"

let database: TestDatabase

beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

const small = fc.integer({ min: 0, max: 2 })
const readyRow = fc.record({
  lane: fc.constantFrom("q:a", "q:b"),
  priority: small,
  workflowId: small,
  runSeq: small,
  rowId: small,
})

const cases = <T>(arbitrary: fc.Arbitrary<T>): T[] => fc.sample(arbitrary, 2000)

const columnsOf = ({ lane, priority, workflowId, runSeq, rowId }: ReadyRow, prefix = "") => ({
  [`${prefix}lane`]: lane,
  [`${prefix}priority`]: priority,
  [`${prefix}workflow_id`]: workflowId,
  [`${prefix}run_seq`]: runSeq,
  [`${prefix}id`]: rowId,
})

const COLUMNS = (prefix = ""): string =>
  `${prefix}lane text, ${prefix}priority smallint, ${prefix}workflow_id bigint, ${prefix}run_seq bigint, ${prefix}id bigint`

it("compares an unblocked row with the head of the queue as core does", async () => {
  const pairs = cases(fc.tuple(readyRow, fc.option(readyRow, { freq: 10 })))
  const rows = pairs.map(([row, head], n) => ({
    n,
    ...columnsOf(row),
    ...(head !== null && columnsOf(head, "head_")),
    ready_empty: head === null,
    needs_round_robin: false,
  }))
  const found = await ask<{ precedes: boolean }>(
    database.url,
    `SELECT ${PRECEDES_READY} AS precedes FROM (
       SELECT * FROM json_to_recordset($1) AS c (n int, ${COLUMNS()}, ${COLUMNS("head_")}, ready_empty boolean, needs_round_robin boolean)
     ) k CROSS JOIN LATERAL (SELECT k.lane, k.priority, k.workflow_id, k.run_seq, k.id) t ORDER BY k.n`,
    [JSON.stringify(rows)],
  )
  expect(found.map(({ precedes }) => precedes)).toEqual(pairs.map(([row, head]) => precedesReady(row, head)))
})

it("counts the free slots of a limit as core does", async () => {
  const limits = cases(fc.record({ cap: fc.nat(5), used: fc.nat(5) }))
  const rows = limits.map((limit, n) => ({ n, ...limit }))
  const found = await ask<{ free: number }>(
    database.url,
    `SELECT ${FREE_SLOTS} AS free FROM json_to_recordset($1) AS l (n int, cap int, used int) ORDER BY l.n`,
    [JSON.stringify(rows)],
  )
  expect(found.map(({ free }) => free)).toEqual(limits.map(freeSlots))
})

const ENDS = ["success", "failed", "skipped", "cancelled"] as const

const finishedRow = fc.record({
  run_seq: small,
  parent_id: fc.option(small),
  hook: fc.boolean(),
  kind: fc.constantFrom("task", "fan", "group"),
  status: fc.constantFrom(...ENDS),
  allowed_failure: fc.boolean(),
})

it("counts finished rows as core does", async () => {
  const rows = cases(finishedRow)
  const count = (query: string) =>
    ask(
      database.url,
      `WITH finished AS (SELECT * FROM json_to_recordset($1) AS c (run_seq int, parent_id int, hook boolean, kind text, status text, allowed_failure boolean))
       ${query} ORDER BY 1`,
      [JSON.stringify(rows)],
    )
  const counted = rows.map((row) => ({
    ...row,
    ...countFinish({ ...row, isChild: row.parent_id !== null, allowedFailure: row.allowed_failure }, row.status),
  }))
  const sum = (list: typeof counted, key: "listedTasks" | "open" | "hooks" | "failedTopLevel" | "failedChildren") =>
    list.reduce((total, row) => total + row[key], 0)
  const byKey = <K extends number | null>(key: (row: (typeof counted)[number]) => K) =>
    [...Map.groupBy(counted, key)].toSorted(([a], [b]) => Number(a) - Number(b))
  expect(await count(RUN_COUNTS)).toEqual(
    byKey((row) => row.run_seq).map(([run_seq, list]) => ({
      run_seq,
      open_tasks: sum(list, "open"),
      failed: sum(list, "failedTopLevel"),
      hooks: sum(list, "hooks"),
      ...Object.fromEntries(
        ENDS.map((end) => [
          `tasks_${end}`,
          sum(
            list.filter(({ status }) => status === end),
            "listedTasks",
          ),
        ]),
      ),
    })),
  )
  expect(await count(CONTAINER_COUNTS)).toEqual(
    byKey((row) => row.parent_id)
      .filter(([parent_id]) => parent_id !== null)
      .map(([parent_id, list]) => ({ parent_id, finished: list.length, failed: sum(list, "failedChildren") })),
  )
})

const runHold: fc.Arbitrary<RunHold> = fc.record({
  status: fc.constantFrom("running", "success", "failed"),
  cancelling: fc.option(fc.constantFrom("cancel", "timeout")),
  paused: fc.boolean(),
})

const container = fc.record({
  kind: fc.constantFrom("task" as const, "fan" as const, "group" as const),
  isOpened: fc.boolean(),
  childrenCreated: small,
  childrenTotal: fc.option(small),
  childrenPending: fc.option(small),
})

it("lets rows of a run start as core does", async () => {
  const candidates = cases(fc.tuple(runHold, container))
  const rows = candidates.map(([run, row], n) => ({
    n,
    ...run,
    children_created: row.kind === "task" ? 0 : row.childrenCreated,
    children_pending: row.childrenPending,
  }))
  const found = await ask<{ work: boolean; gate: boolean; paused: boolean }>(
    database.url,
    `SELECT ${IS_CLAIMABLE("work")} AS work, ${IS_CLAIMABLE("gate")} AS gate, ${IS_PAUSED} AS paused
     FROM (SELECT * FROM json_to_recordset($1)
       AS c (n int, status text, cancelling text, paused boolean, children_created int, children_pending int)) r
     CROSS JOIN LATERAL (SELECT r.children_created, r.children_pending) k ORDER BY r.n`,
    [JSON.stringify(rows)],
  )
  const decide = (claimable: boolean, paused: boolean) => (!claimable ? "leave" : paused ? "park" : "claim")
  for (const [i, [run, row]] of candidates.entries()) {
    const { work, gate, paused } = found[i]!
    expect(decide(gate === true, paused)).toBe(decideStart(run, row))
    if (row.kind === "task") expect(decide(work, paused)).toBe(decideStart(run, row))
  }
})

it("parks due rows of a paused run as core does", async () => {
  const due = cases(fc.tuple(runHold, fc.boolean()))
  const found = await ask<{ parks: boolean }>(
    database.url,
    `SELECT ${MUST_PARK_RESUMED} AS parks
     FROM json_to_recordset($1) AS r (n int, status text, cancelling text, paused boolean, must_end boolean)
     CROSS JOIN LATERAL (SELECT r.must_end) d ORDER BY r.n`,
    [JSON.stringify(due.map(([run, must_end], n) => ({ n, ...run, must_end })))],
  )
  expect(found.map(({ parks }) => (parks ? "park" : "claim"))).toEqual(
    due.map(([run, mustEnd]) => decideResume(run, { mustEnd })),
  )
})

it("selects the rows that core cancels", async () => {
  const containers = cases(container)
  const rows = containers.map((row, n) => ({
    n,
    kind: row.kind,
    started_at: row.isOpened ? "2026-01-01" : null,
    children_created: row.childrenCreated,
    children_total: row.childrenTotal,
    children_pending: row.childrenPending,
  }))
  const found = await ask<{ effect: string }>(
    database.url,
    `SELECT CASE WHEN ${IS_CANCELLABLE} THEN 'cancel' WHEN ${IS_HALF_CREATED} THEN 'stop_creating' ELSE 'leave' END AS effect
     FROM (SELECT *, 'pending' AS status, NULL::uuid AS attempt_id FROM json_to_recordset($1)
       AS c (n int, kind text, started_at timestamptz, children_created int, children_total int, children_pending int)) t ORDER BY t.n`,
    [JSON.stringify(rows)],
  )
  expect(found.map(({ effect }) => effect)).toEqual(containers.map(cancelEffect))
})

it("finds the queues that allow a start as core does", async () => {
  const now = Date.parse("2026-01-01T00:00:00.000Z")
  const queues = cases(
    fc.record({
      paused: fc.boolean(),
      limit: fc.option(fc.record({ cap: small, used: small })),
      rate: fc.option(fc.record({ limit: fc.integer({ min: 1, max: 4 }), periodMs: fc.constantFrom(1000, 3000) })),
      tokens: fc.integer({ min: 0, max: 8 }).map((n) => n / 4),
      passedMs: fc.integer({ min: -2, max: 8 }).map((n) => n * 250),
    }),
  )
  const rows = queues.map(({ paused, limit, rate, tokens, passedMs }, n) => ({
    n,
    paused,
    ...limit,
    rate_limit: rate?.limit ?? null,
    rate_period_ms: rate?.periodMs ?? null,
    tokens,
    refilled_at: new Date(now - passedMs).toISOString(),
  }))
  const found = await ask<{ none: boolean | null }>(
    database.url,
    `SELECT ${ALLOWS_NO_START.replaceAll(":now", "$2")} AS none
     FROM json_to_recordset($1) AS q (n int, paused boolean, cap int, used int, rate_limit int, rate_period_ms int, tokens float8,
       refilled_at timestamptz) CROSS JOIN LATERAL (SELECT q.cap, q.used) l ORDER BY q.n`,
    [JSON.stringify(rows), new Date(now).toISOString()],
  )
  expect(found.map(({ none }) => none !== true)).toEqual(
    queues.map(({ paused, limit, rate, tokens, passedMs }) => {
      const bucket = openBucket(rate ?? { limit: null, periodMs: null }, tokens, passedMs)
      return availableStarts({ paused, bucket }, limit === null ? Number.POSITIVE_INFINITY : freeSlots(limit)) > 0
    }),
  )
})

it("knows whether a job has not started as TypeScript does", async () => {
  const rows = TASK_STATUSES.flatMap((status) => [0, 1].map((attempt) => ({ status, attempt })))
  const found = await ask<{ fresh: boolean }>(
    database.url,
    `SELECT ${HAS_NOT_STARTED} AS fresh FROM json_to_recordset($1) AS t (n int, status text, attempt int) ORDER BY t.n`,
    [JSON.stringify(rows.map((row, n) => ({ n, ...row })))],
  )
  expect(found.map(({ fresh }) => fresh)).toEqual(rows.map(hasNotStarted))
})
