import { expect, test } from "vitest"
import { createDatabase } from "../../../../test/support/components/postgres.ts"
import { brokenEntry } from "../../../core/rules/access/audit-chain.ts"
import { systemRandom } from "../../../engine/system.ts"
import { openPostgres } from "../postgres.ts"

const ENTRY = { keyId: null, actor: "admin", subject: null, address: null, result: "ok", details: null, request: null }

test("the audit log is a chain by the database's clock, whose instants are finer than the stored ones", async () => {
  const database = await createDatabase()
  const store = await openPostgres({ url: database.url, random: systemRandom })
  try {
    await store.migrate()
    const entry = { ...ENTRY, action: "a", target: "t" }
    await Promise.all(Array.from({ length: 20 }, () => store.appendAudit([entry, entry])))
    const rows = await store.listAudit({ after: 0, limit: 100 })
    expect(rows).toHaveLength(40)
    expect(brokenEntry(null, rows)).toBeNull()
  } finally {
    await store.close()
    await database.drop()
  }
})
