// How Postgres goes about what the loop asks, when it plans at a bad time: with the lists beside `tasks` known to be empty.

import pg from "pg"
import { expect, it, onTestFinished, vi } from "vitest"
import { createDatabase } from "../../../test/support/postgres.ts"
import { newHolderId, newRunId } from "../../core/ids.ts"
import { workflow } from "../../core/testing.ts"
import { seededRandom, WORK } from "../conformance/world.ts"
import { Exchange } from "./exchange.ts"
import { openPostgres } from "./postgres.ts"
import { RELAY } from "./relay.ts"
import { SETTINGS } from "./session.ts"
import { SUCCEED, SUCCEED_ONWARD } from "./succeed.ts"

interface Plan {
  "Node Type": string
  "Relation Name"?: string
  "Index Cond"?: string
  "TID Cond"?: string
  Plans?: Plan[]
}

const NOTHING = { lanes: [], limit: 0 }

const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]

it("claims, ends and cancels look their entries up, and never read a list as a whole", async () => {
  const database = await createDatabase()
  const random = seededRandom(1)
  const store = await openPostgres({ url: database.url, random, schema: "ork" })
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(async () => {
    await client.end()
    await store.close()
    await database.drop()
  })
  await store.migrate()
  const sent = new Map<string, string>()
  const add = vi.spyOn(Exchange.prototype, "add")
  onTestFinished(() => add.mockRestore())

  const holder = newHolderId(Date.now(), random.hex128())
  await store.registerHolder({ id: holder, kind: "server", name: "one", leaseMs: 60_000, process: "", runId: null })
  const compiled = workflow({ a: {}, b: { after: ["a"] }, c: { concurrency: 1 }, d: { concurrency: 1 } })
  const { workflowId, versionId } = await store.putWorkflow({ compiled, hash: "1", source: "", deploy: true })
  const run = { workflowId, versionId, trigger: "manual", params: {}, priority: null, logicalDate: null } as const
  const id = newRunId(Date.now(), random.hex128())
  await store.createRuns([{ ...run, id, idempotencyKey: null, private: false, workingDir: null }])
  const turn = (changes: Parameters<typeof store.advance>[0]["changes"]) =>
    store.advance({ holder, changes, claim: { lanes: [WORK], limit: 10 }, gate: { lanes: ["g"], limit: 10 } })
  const [first, second] = (await turn([])).claims
  const result = { startedAt: 1, finishedAt: 2 }
  await turn([
    { ...first!, kind: "end", status: "success", result: { ...result, state: "success" } },
    { ...second!, kind: "end", status: "failed", result: { ...result, state: "failed", error: "no" } },
  ])
  await store.requestCancel(id, "cancel")
  await turn([])
  for (const statement of [RELAY, SUCCEED, SUCCEED_ONWARD, ...add.mock.calls.map(([one]) => one)])
    sent.set(statement.name, statement.text)
  expect([...sent.keys()]).toEqual(expect.arrayContaining(["claim_simple", "claim_admitted", "end", "cancel", "limits_free"]))

  for (const list of ["ready_rows", "held_rows"]) {
    await client.query(`DELETE FROM ork.${list}`)
    await client.query(`VACUUM ANALYZE ork.${list}`)
  }
  await client.query(SETTINGS("ork"))
  const whole: string[] = []
  for (const [name, text] of sent) {
    if (!/ready_rows|held_rows/.test(text) || /^holders?_/.test(name)) continue
    const values = Array.from(
      { length: Math.max(0, ...[...text.matchAll(/\$(\d+)/g)].map(([, n]) => Number(n))) },
      () => "NULL",
    )
    await client.query(`PREPARE one AS ${text}`)
    const { rows } = await client.query<{ "QUERY PLAN": [{ Plan: Plan }] }>(
      `EXPLAIN (FORMAT JSON) EXECUTE one (${values.join()})`,
    )
    await client.query("DEALLOCATE one")
    for (const node of nodesOf(rows[0]!["QUERY PLAN"][0].Plan)) {
      const listed = node["Relation Name"] === "ready_rows" || node["Relation Name"] === "held_rows"
      if (listed && node["Node Type"].endsWith("Scan") && node["Index Cond"] === undefined && node["TID Cond"] === undefined)
        whole.push(`${name}: ${node["Node Type"]} of ${node["Relation Name"]}`)
    }
  }
  expect(whole).toEqual([])
})

it("plans are made anew while a connection is young, and ever more rarely", async () => {
  const database = await createDatabase()
  const store = await openPostgres({ url: database.url, random: seededRandom(2) })
  onTestFinished(async () => {
    await store.close()
    await database.drop()
  })
  await store.migrate()
  const add = vi.spyOn(Exchange.prototype, "add")
  onTestFinished(() => add.mockRestore())
  const turns: number[] = []
  for (let turn = 0; turn < 80; turn++) {
    await store.advance({ holder: newHolderId(1, "0".repeat(32)), changes: [], claim: NOTHING, gate: NOTHING })
    if (add.mock.calls.some(([statement]) => statement.name === "discard_plans")) turns.push(turn)
    add.mockClear()
  }
  expect(turns).toEqual([15, 63])
})
