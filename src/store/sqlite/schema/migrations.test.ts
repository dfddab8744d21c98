import { describe, expect, it, onTestFinished } from "vitest"
import { systemClock as clock, systemRandom as random } from "../../../engine/system.ts"
import { migrationLockSuite } from "../../conformance/admin/migrations.ts"
import { SchemaTooNew } from "../../contract/errors.ts"
import { Database } from "../connection/database.ts"
import { migrate, MIGRATIONS } from "./migrations.ts"
import { openSqlite } from "../sqlite.ts"
import { otherProcess, tempFile } from "../testing.ts"

const fresh = (): Database => {
  const db = new Database(":memory:")
  onTestFinished(() => db.close())
  return db
}

const OBJECTS =
  "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY tbl_name, type DESC, name"

const schemaOf = (db: Database): string =>
  db
    .all<[string]>(OBJECTS)
    .map(([sql]) => `${sql};\n`)
    .join("\n")

describe("migrations", () => {
  migrationLockSuite(MIGRATIONS, new URL("migrations.lock", import.meta.url))

  it("produce schema.sql", async () => {
    const db = fresh()
    migrate(db)
    await expect(schemaOf(db)).toMatchFileSnapshot("schema.sql")
  })

  it("are applied once each, starting from the version of the database", () => {
    const db = fresh()
    const steps = ["CREATE TABLE a (x)", "CREATE TABLE b (x)"]
    migrate(db, steps.slice(0, 1))
    migrate(db, steps)
    migrate(db, steps)
    expect(schemaOf(db)).toBe("CREATE TABLE a (x);\n\nCREATE TABLE b (x);\n")
  })

  it("leave the database unchanged when one fails", () => {
    const db = fresh()
    expect(() => migrate(db, ["CREATE TABLE a (x)", "nonsense"])).toThrow("nonsense")
    expect(schemaOf(db)).toBe("")
    migrate(db, ["CREATE TABLE a (x)"])
    expect(schemaOf(db)).toBe("CREATE TABLE a (x);\n")
  })

  it("reject a schema that is newer than the code and say what to do", () => {
    const db = fresh()
    migrate(db, [...MIGRATIONS, "CREATE TABLE later (x)"])
    expect(() => migrate(db)).toThrow(SchemaTooNew)
    expect(() => migrate(db)).toThrow(
      /:memory: has schema version \d+, but this Ork knows versions up to \d+: run the newer Ork/,
    )
  })

  it("succeed when several processes apply them at the same time", async () => {
    const path = tempFile()
    const code = `const store = await openSqlite({ path, clock, random }); await store.migrate(); say("done"); await store.close()`
    const others = [otherProcess(path, code), otherProcess(path, code), otherProcess(path, code)]
    const store = await openSqlite({ path, clock, random })
    await store.migrate()
    for (const other of others) expect(await other.lines.next()).toMatchObject({ value: "done" })
    await store.close()
  })
})

describe("the schema", () => {
  const db = fresh
  const insert = (status: string, rest = ""): string => `
    INSERT INTO tasks (run_seq, node, path, kind, upstream_pending, lane, priority, workflow_id, status${rest && ", attempt_id"})
    VALUES (1, 0, '', 'task', 0, 'g', 5, 1, '${status}'${rest && `, '${rest}'`})`

  it.each([
    ["an attempt without its id and holder", insert("dispatched")],
    ["an attempt without its holder", insert("running", "x")],
    ["an unknown status", insert("done")],
    ["a finished run without finished_at", "UPDATE runs SET status = 'success'"],
    ["a negative number of open tasks", "UPDATE runs SET open_tasks = -1"],
  ])("rejects %s", (_, sql) => {
    const one = db()
    migrate(one)
    one.exec(`INSERT INTO runs (id, workflow_id, version_id, status, "trigger", params, priority, private, created_at)
      VALUES ('r', 1, 1, 'running', 'manual', '{}', 5, 0, '')`)
    expect(() => one.exec(sql)).toThrow(/CHECK constraint failed/)
  })
})
