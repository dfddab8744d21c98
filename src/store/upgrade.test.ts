// Upgrades of a database at the first schema version, while another process writes to it as a server of that version does, and several
// new servers start at once.

import { DatabaseSync } from "node:sqlite"
import pg from "pg"
import { expect, onTestFinished, test } from "vitest"
import { createDatabase } from "../../test/support/components/postgres.ts"
import { enforceRules } from "../../test/support/components/postgres-rules.ts"
import { newHolderId, newRunId } from "../core/model/ids.ts"
import { workflow } from "../core/testing.ts"
import { systemClock as clock, systemRandom as random } from "../engine/system.ts"
import { GATE, LEASE_MS, WORK } from "./conformance/world.ts"
import type { ServerStore } from "./contract/server-store.ts"
import { openPostgres } from "./postgres/postgres.ts"
import { INITIAL as POSTGRES_INITIAL } from "./postgres/schema/001-initial.ts"
import { INITIAL as SQLITE_INITIAL } from "./sqlite/schema/001-initial.ts"
import { openSqlite } from "./sqlite/sqlite.ts"
import { otherProcess, tempFile } from "./sqlite/testing.ts"

const OLD_RUNS = 300
const LATER_RUNS = 100
const DEADLOCK = "40P01"
const AT = "2026-01-01T00:00:00.000Z"
const compiled = JSON.stringify(workflow({ a: {} }))

const WORKFLOW = `
  INSERT INTO workflows (name, deployed_version, created_at) VALUES ('test', 1, '${AT}');
  INSERT INTO versions (workflow_id, version, hash, source, compiled, created_at) VALUES (1, 1, 'h', '', '${compiled}', '${AT}');`

/** Returns the statements with which a server of the first version creates a run with one ready task. Some early ones need a label. */
const newRun = (seq: number, no: "0" | "false"): string[] => [
  `INSERT INTO runs (id, workflow_id, version_id, status, open_tasks, tasks_total, "trigger", params, priority, private, created_at, started_at)
   VALUES ('${newRunId(seq, random.hex128())}', 1, 1, 'running', 1, 1, 'manual', '{}', 5, ${no}, '${AT}', '${AT}')`,
  `INSERT INTO tasks (run_seq, node, path, kind, status, upstream_pending, lane, priority, workflow_id)
   VALUES (${seq}, 0, '', 'task', 'pending', 0, '${seq % 3 === 0 && seq <= OLD_RUNS ? "q:default|gpu" : WORK}', 5, 1)`,
]

/** Claims and finishes every task of the upgraded database; returns how many there were. */
const finishAll = async (store: ServerStore): Promise<number> => {
  const holder = newHolderId(clock.now(), random.hex128())
  await store.registerHolder({ id: holder, kind: "server", name: "new", leaseMs: 6 * LEASE_MS, process: "new", runId: null })
  const advance = (changes: Parameters<ServerStore["advance"]>[0]["changes"]) =>
    store.advance({
      holder,
      changes,
      work: { lanes: [WORK, "f:default||gpu"], maxClaims: 100 },
      gate: { lanes: [GATE], maxClaims: 0 },
    })
  let finished = 0
  for (let turn = await advance([]); turn.claims.length > 0;) {
    finished += turn.claims.length
    const now = clock.now()
    turn = await advance(
      turn.claims.map(({ row, attemptId }) => ({
        kind: "finish",
        row,
        attemptId,
        status: "success",
        result: { state: "success", startedAt: now, finishedAt: now },
      })),
    )
  }
  return finished
}

const expectUpgraded = async (store: ServerStore, runs: number): Promise<void> => {
  expect(await finishAll(store)).toBe(runs)
  const [newest] = await store.listRuns({ limit: 1 })
  expect(newest).toMatchObject({ status: "success", tasks: { success: 1 } })
  expect(await store.listRuns({ limit: 2 * runs, status: "success" })).toHaveLength(runs)
  const [made] = await store.createRuns([
    {
      id: newRunId(clock.now(), random.hex128()),
      workflowId: 1,
      versionId: 1,
      trigger: "manual",
      params: {},
      priority: null,
      logicalDate: null,
      idempotencyKey: null,
      private: false,
      workingDir: null,
    },
  ])
  expect(made!.run.number).toBeGreaterThan(OLD_RUNS)
}

test("SQLite: a database of the first version is upgraded while an old process writes and new ones start", async () => {
  const path = tempFile()
  const old = new DatabaseSync(path)
  old.exec(`PRAGMA journal_mode = WAL; ${SQLITE_INITIAL}; PRAGMA user_version = 1; ${WORKFLOW}; BEGIN`)
  for (let seq = 1; seq <= OLD_RUNS; seq++) old.exec(newRun(seq, "0").join("; "))
  old.exec("COMMIT")
  old.close()

  const later = Array.from({ length: LATER_RUNS }, (_, i) => newRun(OLD_RUNS + 1 + i, "0").join("; "))
  const write = `
    const db = new DatabaseSync(path)
    db.exec("PRAGMA busy_timeout = 10000")
    for (const sql of ${JSON.stringify(later)}) {
      db.exec("BEGIN IMMEDIATE; " + sql + "; COMMIT")
      say("wrote")
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
    say("done")`
  const writer = otherProcess(path, write)
  expect(await writer.lines.next()).toMatchObject({ value: "wrote" })
  const upgrade = `const store = await openSqlite({ path, clock, random }); await store.migrate(); say("upgraded"); await store.close()`
  const others = [1, 2, 3].map(() => otherProcess(path, upgrade))
  for (const other of others) expect(await other.lines.next()).toMatchObject({ value: "upgraded" })
  for (let line = await writer.lines.next(); line.value !== "done"; line = await writer.lines.next())
    expect(line.done).not.toBe(true)

  const store = await openSqlite({ path, clock, random })
  onTestFinished(() => store.close())
  await store.migrate()
  await expectUpgraded(store, OLD_RUNS + LATER_RUNS)
})

test("Postgres: a database of the first version is upgraded while an old server writes and new ones start", async () => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  const old = new pg.Client({ connectionString: database.url })
  await old.connect()
  await old.query(`CREATE SCHEMA ork; SET search_path TO ork; CREATE TABLE schema_version (version integer NOT NULL);
    INSERT INTO schema_version VALUES (1); ${POSTGRES_INITIAL}; ${WORKFLOW}`)
  const READY = "INSERT INTO ready_queue SELECT lane, priority, workflow_id, run_seq, id FROM tasks ORDER BY id DESC LIMIT 1"
  const add = async (seq: number): Promise<void> => {
    try {
      await old.query(`BEGIN; ${[...newRun(seq, "false"), READY].join("; ")}; COMMIT`)
    } catch (error) {
      await old.query("ROLLBACK")
      if ((error as pg.DatabaseError).code !== DEADLOCK) throw error
      await add(seq)
    }
  }
  let runs = 0
  while (runs < OLD_RUNS) await add(++runs)

  let upgraded = false
  const writing = (async () => {
    while (!upgraded) await add(++runs)
  })()
  const stores = await Promise.all([1, 2, 3].map(() => openPostgres({ url: database.url, random })))
  onTestFinished(async () => void (await Promise.all(stores.map((store) => store.close()))))
  await Promise.all(stores.map((store) => store.migrate()))
  upgraded = true
  await writing
  await old.end()
  await enforceRules(database.url, "ork")
  await expectUpgraded(stores[0]!, runs)
})
