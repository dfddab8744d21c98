import { expect, test } from "vitest"
import { currentActor, withAudit } from "../store/contract/audit-scope.ts"
import { systemClock } from "./system.ts"

test("a timer does not belong to the request that set it", async () => {
  const entry = {
    keyId: null,
    actor: "ci",
    subject: null,
    address: null,
    action: "a",
    target: "t",
    result: "ok",
    details: null,
  }
  const actors = await withAudit({ ...entry, request: null }, () =>
    Promise.all([0, 1].map((ms) => new Promise((resolve) => systemClock.after(ms, () => resolve(currentActor()))))),
  )
  expect(actors.result).toEqual([null, null])
})
