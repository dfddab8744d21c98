import { DatabaseSync } from "node:sqlite"
import fc from "fast-check"
import { expect, it } from "vitest"
import type { ContainerRow } from "../../core/model/container-state.ts"
import { cancelEffect } from "../../core/rules/changes/cancel-effect.ts"
import { IS_CANCELLABLE, IS_HALF_CREATED } from "./cancellable.ts"

const count = fc.integer({ min: 0, max: 3 })

const containerRow: fc.Arbitrary<ContainerRow> = fc.record({
  kind: fc.constantFrom("task", "fan", "group"),
  isOpened: fc.boolean(),
  childrenCreated: count,
  childrenTotal: fc.option(count),
  childrenPending: fc.option(count),
})

it("selects the rows that core cancels, in SQLite", () => {
  const db = new DatabaseSync(":memory:")
  const select = db.prepare(`
    SELECT CASE WHEN ${IS_CANCELLABLE} THEN 'cancel' WHEN ${IS_HALF_CREATED} THEN 'stop_creating' ELSE 'leave' END AS effect
    FROM (SELECT 'pending' AS status, NULL AS attempt_id, ?1 AS kind, ?2 AS started_at, ?3 AS children_created, ?4 AS children_total,
      ?5 AS children_pending) t`)
  fc.assert(
    fc.property(containerRow, (row) => {
      const { kind, isOpened, childrenCreated, childrenTotal, childrenPending } = row
      const found = select.get(
        kind,
        isOpened ? "2026-01-01T00:00:00.000Z" : null,
        childrenCreated,
        childrenTotal,
        childrenPending,
      )
      expect(found?.["effect"]).toBe(cancelEffect(row))
    }),
    { numRuns: 2000 },
  )
  db.close()
})
