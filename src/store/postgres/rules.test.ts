// Rules of core that statements evaluate in SQL: both must agree on generated rows.

import fc from "fast-check"
import { afterAll, beforeAll, expect, it } from "vitest"
import { ask, createDatabase, type TestDatabase } from "../../../test/support/components/postgres.ts"
import { precedesReady, type ReadyRow } from "../../core/rules/claims/claim-order.ts"
import { countFinish } from "../../core/rules/changes/effects.ts"
import { freeSlots } from "../../core/rules/claims/queue-budget.ts"
import { CONTAINER_COUNTS, RUN_COUNTS } from "./advance/count-down.ts"
import { PRECEDES_READY } from "./advance/finish-successes.ts"
import { FREE_SLOTS } from "./claim/limits.ts"

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
  row: small,
})

const cases = <T>(arbitrary: fc.Arbitrary<T>): T[] => fc.sample(arbitrary, 2000)

const columnsOf = ({ lane, priority, workflowId, runSeq, row }: ReadyRow, prefix = "") => ({
  [`${prefix}lane`]: lane,
  [`${prefix}priority`]: priority,
  [`${prefix}workflow_id`]: workflowId,
  [`${prefix}run_seq`]: runSeq,
  [`${prefix}id`]: row,
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
  const sum = (list: typeof counted, key: "listed" | "open" | "hooks" | "failed" | "failedChildren") =>
    list.reduce((total, row) => total + row[key], 0)
  const byKey = <K extends number | null>(key: (row: (typeof counted)[number]) => K) =>
    [...Map.groupBy(counted, key)].toSorted(([a], [b]) => Number(a) - Number(b))
  expect(await count(RUN_COUNTS)).toEqual(
    byKey((row) => row.run_seq).map(([run_seq, list]) => ({
      run_seq,
      open_tasks: sum(list, "open"),
      failed: sum(list, "failed"),
      hooks: sum(list, "hooks"),
      ...Object.fromEntries(
        ENDS.map((end) => [
          `tasks_${end}`,
          sum(
            list.filter(({ status }) => status === end),
            "listed",
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
